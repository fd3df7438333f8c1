# SPDX-License-Identifier: Apache-2.0
"""Rows of a mask in which nothing is visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["mask_rows"]


def mask_rows(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer for rows over which a masked softmax has nothing to sum."""
    del settings
    found = subject.mask_rows
    if found is None or not found.empty:
        return
    yield subject.problem(
        "N024",
        "warning",
        "data_mask_row",
        row=found.first,
        rows=found.empty,
        of=found.n,
    )
