# SPDX-License-Identifier: Apache-2.0
"""Text in a column of numbers, which is read as NaN."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from numcheck.datacheck.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numcheck.datacheck.piece import Unread

__all__ = ["text_among_numbers", "without_text"]

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


def without_text(
    problems: Iterable[Problem], unread: Iterable[Unread]
) -> Iterator[Problem]:
    """Yield problems but for NaN that are all text, of which the cells are told.

    Args:
        problems: what was found in arrays.
        unread: their cells that are no numbers.
    """
    texts: Counter[str] = Counter()
    for cells in unread:
        texts[cells.array] += cells.cells
    for problem in problems:
        bad = (problem.fields.get("nan"), problem.fields.get("inf"))
        if problem.id != "N011" or bad != (texts[problem.array], 0):
            yield problem
