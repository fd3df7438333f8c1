# SPDX-License-Identifier: Apache-2.0
"""Columns whose values a narrower format cannot tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numcheck.formats import get

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["lost_digits"]

_FEW = 16
"""Steps of the format between the column's smallest and largest value."""


def lost_digits(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer for times and positions: large numbers that differ by little.

    Without a format in the settings float64 is held against float32, to which both
    frameworks convert it.
    """
    if not subject.is_feature:
        return
    own, target = subject.format, get(settings.dtype or "float32")
    if target.precision >= own.precision:
        return
    columns = subject.columns
    spread, amax = columns.high - columns.low, columns.amax
    with np.errstate(invalid="ignore", over="ignore"):
        step = target.eps * np.exp2(np.floor(np.log2(np.maximum(amax, 1e-300))))
        few = (columns.finite > 0) & (spread > 0) & (spread < _FEW * step)
    if not few.any():
        return
    column = int(np.argmax(few))
    yield subject.problem(
        "N019",
        "warning",
        "data_subtract_first",
        column=column,
        amax=float(amax[column]),
        spread=float(spread[column]),
        step=float(step[column]),
        dtype=target.name,
        columns=int(few.sum()),
    )
