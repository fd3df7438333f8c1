# SPDX-License-Identifier: Apache-2.0
"""NaN or Inf among the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["nonfinite"]


def nonfinite(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer for data that hold NaN or Inf; a mask may be written with -Inf."""
    del settings
    columns = subject.columns
    nan, inf = int(columns.nan.sum()), int(columns.inf.sum())
    if subject.role == "mask":
        inf = 0
    if not nan and not inf:
        return
    column = int(np.argmin(columns.bad_row))
    yield subject.problem(
        "N011",
        "error",
        "data_impute",
        row=int(columns.bad_row[column]),
        column=column,
        nan=nan,
        inf=inf,
        n=int(columns.n.sum()),
        columns=int((columns.nan + columns.inf > 0).sum()),
        of=len(columns.n),
    )
