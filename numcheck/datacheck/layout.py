# SPDX-License-Identifier: Apache-2.0
"""Which elements of an array are one column, and how a place is written."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["Layout", "cut", "is_numeric", "layout_of"]

_MOST_COLUMNS: Final = 4096
_CHANNELS: Final = (1, 3, 4)
_ELEMENTS: Final = 1 << 18  # several passes over so many stay within the cache


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """How an array is seen as rows and columns.

    Attributes:
        axis: the axis whose entries are the columns; None where all elements are one.
        columns: how many there are.
        ndim: dimensions of the array.
        names: of the columns; empty where they have numbers alone.
    """

    axis: int | None
    columns: int
    ndim: int
    names: tuple[str, ...] = ()

    def matrix(self, array: NDArray[Any]) -> NDArray[np.float64]:
        """Return the array as (elements, columns) in float64."""
        values = np.asarray(array, np.float64)
        if self.axis is None:
            return values.reshape(-1, 1)
        return np.moveaxis(values, self.axis, -1).reshape(-1, self.columns)

    def column(self, column: int) -> str | None:
        """Return a column's name or number; None where there is one alone."""
        if self.names:
            return self.names[column]
        return None if self.axis is None else str(column)

    def place(self, name: str, row: int | None, column: int | None) -> str:
        """Return a place in index notation.

        Example:
            >>> Layout(1, 9, 2).place("x", 17, 4), Layout(1, 3, 4).place("x", 17, 2)
            ('x[17, 4]', 'x[17, 2, …]')
            >>> (
            ...     Layout(None, 1, 1).place("x", 17, None),
            ...     Layout(2, 9, 3).place("x", 1, 4),
            ... )
            ('x[17]', 'x[1, …, 4]')
        """
        if row is None and column is None:
            return name
        index = [":" if row is None else str(row)]
        label = None if column is None else self.column(column)
        if row is None and label is None:
            return name
        if label is not None:
            inner = self.axis == self.ndim - 1
            index += ["…"] if inner and self.ndim > 2 else []
            index.append(repr(label) if self.names else label)
            index += [] if inner else ["…"]
        elif self.ndim > 1:
            index.append("…")
        return f"{name}[{', '.join(index)}]"


def layout_of(shape: tuple[int, ...], names: tuple[str, ...] = ()) -> Layout:
    """Return how an array of a shape is seen: the last axis as columns, or channels.

    Example:
        >>> (
        ...     layout_of((8, 3, 32, 32)).axis,
        ...     layout_of((8, 20)).axis,
        ...     layout_of((8,)).axis,
        ... )
        (1, 1, None)
    """
    ndim = len(shape)
    if ndim < 2:
        return Layout(None, 1, max(ndim, 1))
    axis = 1 if ndim == 4 and shape[1] in _CHANNELS else ndim - 1
    if not 0 < shape[axis] <= _MOST_COLUMNS:
        return Layout(None, 1, ndim)
    return Layout(axis, shape[axis], ndim, names)


def cut(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield an array (rows, …) in parts of whole rows.

    Example:
        >>> [part.shape for part in cut(np.zeros((5, 1 << 17)))]
        [(2, 131072), (2, 131072), (1, 131072)]
    """
    rows = max(_ELEMENTS // max(math.prod(array.shape[1:]), 1), 1)
    for start in range(0, len(array), rows):
        yield array[start : start + rows]


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Whether the elements are real numbers or truth values.

    Example:
        >>> is_numeric(np.dtype("U5")), is_numeric(np.dtype(ml_dtypes.bfloat16))
        (False, True)
    """
    return dtype.kind in "fiub" or (
        dtype.kind == "V" and hasattr(ml_dtypes, dtype.name)
    )
