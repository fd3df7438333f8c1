# SPDX-License-Identifier: Apache-2.0
"""Features that were never brought to scale one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from numcheck.datacheck.checks.pixels import is_pixels
from numcheck.formats import get

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["unnormalised"]

_SIZEABLE = 50.0  # standardised features stay below 10
_LARGE = 1e3


def unnormalised(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer for columns that are far too large, or large and far from zero.

    Outliers and sentinels do not count: most of the column must be out of scale.
    """
    if not subject.is_feature or is_pixels(subject):
        return
    centre = subject.centre()
    off_centre = np.abs(centre.median) >= centre.scale / 2
    far = (centre.reach >= _LARGE) | ((centre.reach >= _SIZEABLE) & off_centre)
    if not far.any():
        return
    column = int(np.argmax(np.where(far, centre.reach, 0.0)))
    largest = get(settings.dtype or "float16").max
    yield subject.problem(
        "N016",
        "warning",
        "data_standardise",
        "data_log",
        column=column,
        reach=float(centre.reach[column]),
        median=float(centre.median[column]),
        scale=float(centre.scale[column]),
        columns=int(far.sum()),
        of=len(far),
        dtype=settings.dtype or "float16",
        limit=math.sqrt(largest),
    )
