# SPDX-License-Identifier: Apache-2.0
"""Numbers written where a value is missing: -999, 1e30, -1."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["missing_values", "sentinel"]

_FAR = 20.0  # robust standard deviations from the other values
_PLENTY = 3  # a single -1 or 9999 is a value
_ROUND = 1e6


class Missing(NamedTuple):
    """A number that stands for missing values in one column.

    Attributes:
        column: the column.
        value: the number.
        times: how often it occurs, at least.
        is_low: whether it is the column's smallest value; else it is the largest.
    """

    column: int
    value: float
    times: int
    is_low: bool


def missing_values(subject: Subject) -> list[Missing]:
    """Return the sentinels of an array, those that occur most often first."""
    columns, centre = subject.columns, subject.centre()
    found: list[Missing] = []
    for value, counts in columns.sentinels.items():
        for column in np.flatnonzero(counts).tolist():
            low, high = columns.low[column], columns.high[column]
            is_low = abs(low - value) <= abs(high - value)
            # What was an extreme of one part may be none of the whole.
            extreme = low if is_low else high
            if not np.isclose(extreme, value, rtol=1e-3):
                continue
            count = int(counts[column])
            missing = Missing(column, value, count, bool(is_low))
            if value == -1:
                if _is_one_below_zero(subject, missing):
                    found.append(missing)
                continue
            if 0 < value < _ROUND and missing.times < _PLENTY:
                continue
            away = abs(value - centre.median[column]) / centre.scale[column]
            if away > _FAR:
                found.append(missing)
    return sorted(found, key=lambda m: -m.times)


def _is_one_below_zero(subject: Subject, missing: Missing) -> bool:
    """Whether -1 occurs again and again below values that start at zero."""
    columns, column = subject.columns, missing.column
    return bool(
        missing.is_low
        and missing.times >= _PLENTY
        and columns.high[column] > 1
        and not columns.has_small_negative[column]
        and not (columns.is_whole[column] and subject.is_floating)
    )


def sentinel(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer with the number that stands for most missing values."""
    del settings
    if subject.role != "feature":
        return
    found = missing_values(subject)
    if not found:
        return
    most = found[0]
    rows = subject.columns.low_row if most.is_low else subject.columns.high_row
    yield subject.problem(
        "N015",
        "warning",
        "data_sentinel",
        row=int(rows[most.column]),
        column=most.column,
        value=most.value,
        count=most.times,
        columns=len({m.column for m in found}),
    )
