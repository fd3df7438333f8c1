# SPDX-License-Identifier: Apache-2.0
"""Single values far from all others of their column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numcheck.datacheck.checks.sentinel import missing_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["outlier"]

_FAR = 100.0
"""Robust standard deviations. The largest of a million normal values lies at 5, of a
million of Student's t with three degrees of freedom at about 100."""


def outlier(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer with the value that stands out the most; sentinels are told elsewhere."""
    del settings
    if not subject.is_feature:
        return
    columns, centre = subject.columns, subject.centre()
    with np.errstate(over="ignore", invalid="ignore"):
        above = (columns.high - centre.median) / centre.scale
        below = (centre.median - columns.low) / centre.scale
    for found in missing_values(subject):
        side = below if found.is_low else above
        side[found.column] = 0.0
    far = np.fmax(above, below)
    far = np.where(np.isnan(far) | (columns.finite == 0), 0.0, far)
    column = int(np.argmax(far))
    if far[column] <= _FAR:
        return
    is_high = above[column] >= below[column]
    rows = columns.high_row if is_high else columns.low_row
    value = columns.high if is_high else columns.low
    yield subject.problem(
        "N014",
        "warning",
        "data_clip",
        "data_log",
        row=int(rows[column]),
        column=column,
        value=float(value[column]),
        median=float(centre.median[column]),
        scale=float(centre.scale[column]),
        z=float(far[column]),
        columns=int((far > _FAR).sum()),
    )
