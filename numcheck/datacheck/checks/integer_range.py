# SPDX-License-Identifier: Apache-2.0
"""Integers near the end of their range, or past that of int32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["integer_range"]

_INT32 = np.iinfo(np.int32).max
_SHORT = 2  # bytes of an integer whose square soon wraps around


def integer_range(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer for wide integers that JAX narrows, and short ones whose squares wrap."""
    del settings
    dtype, columns = subject.dtype, subject.columns
    if dtype.kind not in "iu" or subject.role == "mask":
        return
    column = int(np.argmax(columns.amax))
    amax = float(columns.amax[column])
    is_high = columns.high[column] >= -columns.low[column]
    row = int((columns.high_row if is_high else columns.low_row)[column])
    if dtype.itemsize > 4 and amax > _INT32:
        yield subject.problem(
            *("N021", "warning", "data_int64"),
            row=row,
            column=column,
            amax=amax,
            dtype="int32",
            max=int(_INT32),
        )
    short = dtype.itemsize == _SHORT and subject.role == "feature"
    limit = int(np.iinfo(dtype).max)
    if short and amax * amax > limit:
        yield subject.problem(
            *("N027", "note", "data_cast_first"),
            row=row,
            column=column,
            amax=amax,
            dtype=dtype.name,
            max=limit,
        )
