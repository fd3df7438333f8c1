# SPDX-License-Identifier: Apache-2.0
"""float64 or integer features that meet a lower precision."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numcheck.datacheck.settings import Settings
from numcheck.formats import get

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.subject import Subject

__all__ = ["dtype_mismatch", "mixed_dtypes"]

_HALVES = ("float16", "bfloat16")
_ROW_NUMBERS = frozenset(("id", "ids", "idx", "index", "position", "token", "tokens"))
"""Integers called so pick rows of a table and are never computed with."""


def dtype_mismatch(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer with a note for features finer than the format the model computes in."""
    if settings.dtype is None or subject.role != "feature":
        return
    target = get(settings.dtype)
    if subject.is_feature:
        is_finer = subject.format.name == "float64" and target.precision < 53
    else:
        is_finer = _is_quantity(subject) and _amax(subject) > 2**target.precision
    if is_finer:
        own = subject.format.name if subject.is_feature else subject.dtype.name
        yield subject.problem(
            "N020", "note", "data_one_dtype", own=own, dtype=target.name
        )


def _is_quantity(subject: Subject) -> bool:
    """Whether integers may be measurements rather than numbers of table rows."""
    words = set(re.findall("[a-z]+", subject.name.lower()))
    return subject.dtype.kind in "iu" and not words & _ROW_NUMBERS


def _amax(subject: Subject) -> float:
    return float(subject.columns.amax.max())


def mixed_dtypes(subjects: Sequence[Subject]) -> Iterator[Problem]:
    """Answer for float64 features beside others in half precision."""
    halves = (s.dtype.name for s in subjects if s.is_feature)
    half = next((name for name in halves if name in _HALVES), None)
    if half is not None:
        for subject in subjects:
            yield from dtype_mismatch(subject, Settings(half))
