# SPDX-License-Identifier: Apache-2.0
"""Some rows of one array of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Piece", "Unread"]


class Unread(NamedTuple):
    """Cells of one column of numbers that hold something else, read as NaN.

    Attributes:
        array: name of the array that the column is part of.
        column: name of the column.
        row: first row, from the start of the file, that holds such a cell.
        text: what stands there.
        cells: how many cells do.
    """

    array: str
    column: str
    row: int
    text: str
    cells: int

    def merge(self, later: Unread) -> Unread:
        """Return both together; the first row is this one's."""
        return self._replace(cells=self.cells + later.cells)


class Piece(NamedTuple):
    """Some rows of one array.

    Attributes:
        name: of the array.
        array: (rows, …).
        read_bytes: how much of the file was read for it, about.
        columns: names of its columns; empty where they have none.
        skipped: names of columns that hold no numbers.
        unread: cells that are no numbers, in columns that are.
    """

    name: str
    array: NDArray[Any]
    read_bytes: int
    columns: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
