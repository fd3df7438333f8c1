# SPDX-License-Identifier: Apache-2.0
"""Columns in which every element is NaN or Inf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["no_number"]


def no_number(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer for columns without a single finite number, beside others that have."""
    del settings
    empty = subject.columns.finite == 0
    count = int(empty.sum())
    if not count or subject.role == "mask" or len(empty) == 1:
        return
    yield subject.problem(
        "N012",
        "error",
        "data_drop_column",
        column=int(np.argmax(empty)),
        columns=count,
        of=len(empty),
    )
