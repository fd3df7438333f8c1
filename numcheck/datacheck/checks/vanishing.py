# SPDX-License-Identifier: Apache-2.0
"""Columns too small for the compute dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numcheck.formats import get

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["vanishing"]


def vanishing(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer for columns whose every value lies below the format's normal numbers."""
    if settings.dtype is None or not subject.is_feature:
        return
    columns, limit = subject.columns, get(settings.dtype)
    small = (columns.amax > 0) & (columns.amax < limit.smallest_normal)
    if not small.any():
        return
    column = int(np.argmax(small))
    yield subject.problem(
        "N026",
        "warning",
        "data_standardise",
        column=column,
        amax=float(columns.amax[column]),
        dtype=limit.name,
        smallest=float(limit.smallest_normal),
        columns=int(small.sum()),
    )
