# SPDX-License-Identifier: Apache-2.0
"""Columns that hold one value alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["constant"]

_ENOUGH = 3
"""Rows from which on equal values are no accident."""


def constant(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer for features whose standard deviation, a usual divisor, is zero."""
    del settings
    columns = subject.columns
    same = (columns.low == columns.high) & (columns.finite >= _ENOUGH)
    count = int(same.sum())
    if not count or not subject.is_feature:
        return
    column = int(np.argmax(same))
    yield subject.problem(
        "N013",
        "warning",
        "data_std_floor",
        "data_drop_column",
        column=column,
        columns=count,
        of=len(same),
        value=float(columns.low[column]),
    )
