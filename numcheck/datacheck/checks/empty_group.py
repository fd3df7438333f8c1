# SPDX-License-Identifier: Apache-2.0
"""Groups without a member, and counts of zero: divisors of a mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["empty_group"]


def empty_group(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer for counts that are zero, and group numbers that are left out."""
    del settings
    columns = subject.columns
    if subject.role == "count" and (columns.low == 0).any():
        column = int((columns.low == 0).argmax())
        yield subject.problem(
            "N025",
            "warning",
            "data_count_floor",
            row=int(columns.low_row[column]),
            column=column,
            group=int(columns.low_row[column]),
        )
    missing = None if subject.groups is None else subject.groups.missing
    if missing is not None:
        yield subject.problem("N025", "warning", "data_count_floor", group=missing)
