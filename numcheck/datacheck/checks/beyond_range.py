# SPDX-License-Identifier: Apache-2.0
"""Values that the compute dtype cannot hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numcheck.formats import get

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["beyond_range"]


def beyond_range(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer for features that turn into Inf in the format the model computes in."""
    if settings.dtype is None or not subject.is_feature:
        return
    columns, limit = subject.columns, get(settings.dtype)
    beyond = columns.amax > limit.max
    if not beyond.any():
        return
    column = int(np.argmax(columns.amax))
    is_high = columns.high[column] >= -columns.low[column]
    rows = columns.high_row if is_high else columns.low_row
    yield subject.problem(
        "N018",
        "error",
        "data_standardise",
        "data_clip",
        row=int(rows[column]),
        column=column,
        value=float((columns.high if is_high else columns.low)[column]),
        dtype=limit.name,
        max=float(limit.max),
        columns=int(beyond.sum()),
    )
