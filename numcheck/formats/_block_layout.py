# SPDX-License-Identifier: Apache-2.0
"""Cutting an array into blocks, piece by piece, and putting it together again.

Blocks run along one axis and are padded with zeros at the end of each row, never
continued in the next; or they are tiles of the last two axes.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.formats._arrays import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from numcheck.formats._block_format import Extent

    Index = tuple[slice, slice, slice]

__all__ = ["Layout", "layout_for"]


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """How an array of some shape is divided into blocks.

    Attributes:
        shape: (outer, length, inner), the array's shape around the blocks' axis; or
            (outer, rows, columns) for tiles.
        block: (rows, columns) of one block; rows is 1 when blocks run along an axis.
        tiled: whether blocks are tiles of the last two axes.
        scales_shape: shape of the array of scales.
    """

    shape: tuple[int, int, int]
    block: tuple[int, int]
    tiled: bool
    scales_shape: tuple[int, ...]

    @property
    def is_flat(self) -> bool:
        """Whether whole blocks follow one another in a contiguous array."""
        return (
            not self.tiled and self.shape[2] == 1 and not self.shape[1] % self.block[1]
        )

    def pieces(self, limit: int = CHUNK) -> Iterator[Index]:
        """Yield indices of whole blocks with about `limit` elements each."""
        return self._tile_pieces(limit) if self.tiled else self._row_pieces(limit)

    def _row_pieces(self, limit: int) -> Iterator[Index]:
        outer, length, inner = self.shape
        size = self.block[1]
        columns = max(1, min(inner, limit // size))
        along = max(size, limit // columns // size * size)
        padded = min(along, math.ceil(length / size) * size)
        rows = max(1, limit // max(padded * columns, 1)) if columns == inner else 1
        for o in range(0, outer, rows):
            for a in range(0, length, along):
                for i in range(0, inner, columns):
                    yield _index((o, rows), (a, along), (i, columns), self.shape)

    def _tile_pieces(self, limit: int) -> Iterator[Index]:
        outer, rows, columns = self.shape
        height, width = self.block
        across = max(width, limit // height // width * width)
        for o in range(outer):
            for r in range(0, rows, height):
                for c in range(0, columns, across):
                    yield _index((o, 1), (r, height), (c, across), self.shape)

    def blocks(self, array: NDArray[Any], index: Index) -> NDArray[Any]:
        """Return one piece as (number of blocks, elements of a block), zero padded."""
        part = array[index]
        height, width = self.block
        if self.tiled:
            _, rows, columns = part.shape
            part = _padded(part[0], (height - rows, -columns % width))
            tiles = part.reshape(height, -1, width).swapaxes(0, 1)
            return tiles.reshape(-1, height * width)
        part = part.swapaxes(1, 2)
        part = part.reshape(-1, part.shape[2])
        return _padded(part, (0, -part.shape[1] % width)).reshape(-1, width)

    def put(self, array: NDArray[Any], index: Index, blocks: NDArray[Any]) -> None:
        """Write blocks back to where `Layout.blocks` took them from."""
        height, width = self.block
        part = array[index]
        outer, length, inner = part.shape
        if self.tiled:
            tiles = blocks.reshape(-1, height, width).swapaxes(0, 1)
            part[0] = tiles.reshape(height, -1)[:length, :inner]
        else:
            rows = blocks.reshape(outer, inner, -1)[:, :, :length]
            part[:] = rows.swapaxes(1, 2)

    def scale_index(self, index: Index) -> Index:
        """Return where a piece's scales lie in an array of (outer, blocks, inner)."""
        height, width = self.block
        outer, middle, last = index
        if self.tiled:
            return (
                outer,
                slice(middle.start // height, middle.start // height + 1),
                slice(last.start // width, -(-last.stop // width)),
            )
        return outer, slice(middle.start // width, -(-middle.stop // width)), last

    @property
    def scales_3d(self) -> tuple[int, int, int]:
        """Shape of the scales as (outer, blocks, inner)."""
        outer, middle, last = self.shape
        height, width = self.block
        if self.tiled:
            return outer, -(-middle // height), -(-last // width)
        return outer, -(-middle // width), last

    def per_block(self, index: Index, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return one number a block, shaped as `scale_index` addresses them."""
        outer, blocks, inner = (
            part.stop - part.start for part in self.scale_index(index)
        )
        if self.tiled:
            return numbers.reshape(outer, blocks, inner)
        return numbers.reshape(outer, inner, blocks).swapaxes(1, 2)

    def large_blocks(self, limit: int) -> Iterator[list[Index]]:
        """Yield each block as the indices of its parts of at most `limit` elements."""
        outer, length, inner = self.shape
        for o in range(outer):
            for i in range(inner):
                for block in range(0, length, self.block[1]):
                    end = min(block + self.block[1], length)
                    starts = range(block, end, limit)
                    ends = (outer, end, inner)
                    yield [_index((o, 1), (a, limit), (i, 1), ends) for a in starts]


def layout_for(
    shape: tuple[int, ...], block: int | tuple[int, int] | Extent, axis: int
) -> Layout:
    """Return how an array of `shape` is divided.

    Args:
        shape: of the array; an array without axes counts as one element.
        block: elements along `axis`; a tile of the last two axes; ``tensor``; or
            ``channel``, for which every index of `axis` is one block.
        axis: the axis along which blocks run, or the channels' axis.

    Raises:
        ArgumentError: the axis does not exist, or a tile has no two axes to lie on.
        ArgumentTypeError: the axis is no whole number.

    Example:
        >>> layout_for((4, 70), 32, -1).scales_shape
        (4, 3)
    """
    full = shape or (1,)
    if isinstance(block, tuple):
        return _tile_layout(full, block)
    if block == "tensor":
        total = math.prod(full)
        return Layout((1, total, 1), (1, max(total, 1)), tiled=False, scales_shape=())
    try:
        axis = operator.index(axis)
    except TypeError as error:
        raise ArgumentTypeError(
            f"axis must be one whole number, got {axis!r}"
        ) from error
    if not -len(full) <= axis < len(full):
        raise ArgumentError(f"axis {axis} does not exist in an array of shape {shape}")
    axis %= len(full)
    outer, inner = math.prod(full[:axis]), math.prod(full[axis + 1 :])
    if block == "channel":
        # Seen with the channels in front, each channel is one long row.
        per_channel = outer * inner
        return Layout(
            (full[axis], per_channel, 1),
            (1, max(per_channel, 1)),
            tiled=False,
            scales_shape=(full[axis],),
        )
    if block < 1:
        raise ArgumentError(f"block_size must be positive, got {block}")
    count = -(-full[axis] // block)
    scales_shape = (*full[:axis], count, *full[axis + 1 :])
    shape3 = (outer, full[axis], inner)
    return Layout(shape3, (1, block), tiled=False, scales_shape=scales_shape)


def _tile_layout(shape: tuple[int, ...], tile: tuple[int, int]) -> Layout:
    if len(shape) < 2:
        raise ArgumentError(
            f"tiles of {tile[0]}×{tile[1]} need two axes, got an array of shape {shape}"
        )
    if min(tile) < 1:
        raise ArgumentError(f"a tile needs positive sides, got {tile}")
    outer, rows, columns = math.prod(shape[:-2]), shape[-2], shape[-1]
    counts = (-(-rows // tile[0]), -(-columns // tile[1]))
    scales_shape = (*shape[:-2], *counts)
    return Layout((outer, rows, columns), tile, tiled=True, scales_shape=scales_shape)


def _index(
    a: tuple[int, int], b: tuple[int, int], c: tuple[int, int], shape: tuple[int, ...]
) -> Index:
    first, second, third = (
        slice(start, min(start + size, end))
        for (start, size), end in zip((a, b, c), shape, strict=True)
    )
    return first, second, third


def _padded(array: NDArray[Any], missing: tuple[int, int]) -> NDArray[Any]:
    if not any(missing):
        return array
    return np.pad(array, [(0, n) for n in missing])
