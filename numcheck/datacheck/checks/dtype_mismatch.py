# SPDX-License-Identifier: Apache-2.0
"""float64 or integer features that meet a lower precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.datacheck.settings import Settings
from numcheck.formats import get

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.subject import Subject

__all__ = ["dtype_mismatch", "mixed_dtypes"]

_HALVES = ("float16", "bfloat16")


def dtype_mismatch(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer with a note for features wider than the format the model computes in."""
    if settings.dtype is None or not subject.is_feature:
        return
    own, target = subject.format, get(settings.dtype)
    if own.name != "float64" or target.precision >= own.precision:
        return
    yield subject.problem(
        "N020", "note", "data_one_dtype", own=own.name, dtype=target.name
    )


def mixed_dtypes(subjects: Sequence[Subject]) -> Iterator[Problem]:
    """Answer for float64 features beside others in half precision."""
    halves = (s.dtype.name for s in subjects if s.is_feature)
    half = next((name for name in halves if name in _HALVES), None)
    if half is not None:
        for subject in subjects:
            yield from dtype_mismatch(subject, Settings(half))
