# SPDX-License-Identifier: Apache-2.0
"""Some rows of one array of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Piece"]


class Piece(NamedTuple):
    """Some rows of one array.

    Attributes:
        name: of the array.
        array: (rows, …).
        read_bytes: how much of the file was read for it, about.
        columns: names of its columns; empty where they have none.
        skipped: names of columns that hold no numbers.
    """

    name: str
    array: NDArray[Any]
    read_bytes: int
    columns: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
