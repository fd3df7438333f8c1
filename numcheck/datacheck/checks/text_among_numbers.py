# SPDX-License-Identifier: Apache-2.0
"""Text in a column of numbers, which is read as NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.datacheck.problem import Problem

if TYPE_CHECKING:
    from numcheck.datacheck.piece import Unread

__all__ = ["text_among_numbers"]

_LONGEST = 40


def text_among_numbers(cells: Unread) -> Problem:
    """Return that a column of a table holds cells which are no numbers.

    Example:
        >>> from numcheck.datacheck.piece import Unread
        >>> problem = text_among_numbers(Unread("t", "age", 4, "old", 1))
        >>> problem.id, problem.place, problem.fields["text"]
        ('N028', "t[4, 'age']", 'old')
    """
    is_own = cells.array == cells.column
    inner = f"{cells.row}" if is_own else f"{cells.row}, {cells.column!r}"
    place = f"{cells.array}[{inner}]"
    return Problem(
        "N028",
        "warning",
        cells.array,
        place,
        {"place": place, "text": cells.text[:_LONGEST], "count": cells.cells},
        cells.row,
        cells.column,
        ("data_text",),
    )
