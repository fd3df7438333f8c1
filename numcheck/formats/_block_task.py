# SPDX-License-Identifier: Apache-2.0
"""One conversion to a block format: scales from amax, elements from scales."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.formats._arrays import CHUNK, PIECE, chunks, in_memory_order, widened
from numcheck.formats._block_layout import layout_for
from numcheck.formats._modes import checked, modes_for
from numcheck.formats._rounders import generator, round_once, rounder
from numcheck.formats._scales import block_scales, tensor_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from numcheck.formats._block_format import BlockFormat
    from numcheck.formats._block_layout import Index, Layout
    from numcheck.formats._format import Rounding
    from numcheck.formats._modes import Modes, ScaleRule, Subnormals

__all__ = ["BlockTask", "Folded"]

_MANY: Final = 1 << 14
_RULES = ("floor", "ceil", "rceil", "even")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BlockTask:
    """Everything that does not change from piece to piece.

    Attributes:
        fmt: the block format.
        modes: rounding and subnormal mode of the elements, which saturate.
        rule: how a power-of-two scale is chosen; None for the format's own way.
        shared: the tensor's scale in formats with two levels, else 1.
        rng: source of random numbers for stochastic rounding.
        convert: rounds elements to their format, `room` of them at most.
        room: see there; 0 where preparing that would take longer than the rounding.
    """

    fmt: BlockFormat
    modes: Modes
    rule: ScaleRule | None
    shared: float
    rng: np.random.Generator | None
    convert: Callable[[NDArray[np.float64], NDArray[np.float64]], None] | None
    room: int

    @classmethod
    def of(
        cls,
        array: NDArray[Any],
        fmt: BlockFormat,
        rounding: Rounding | None,
        subnormals: Subnormals,
        rule: ScaleRule | None,
        seed: int | None,
    ) -> BlockTask:
        """Check the arguments and look at the whole array where the format needs it."""
        if rule is not None:
            checked(rule, _RULES, "scale_rule")
        modes = modes_for(fmt.element, rounding, "saturate", subnormals)
        rng = generator(modes, seed)
        shared = 1.0
        if fmt.tensor_scale is not None:
            shared = tensor_scale(_finite_amax(array), fmt)
        float64 = np.dtype(np.float64)
        room = min(array.size, PIECE) if array.size >= _MANY else 0
        convert = rounder(float64, fmt.element, modes, room, rng) if room else None
        return cls(fmt, modes, rule, shared, rng, convert, room)

    def scales(self, amax: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scale of every block; NaN where amax is NaN or Inf."""
        bad = ~np.isfinite(amax)
        scale = block_scales(np.where(bad, 1.0, amax), self.fmt, self.rule, self.shared)
        scale[bad] = math.nan
        return scale

    def apply(
        self, blocks: NDArray[np.float64], scale: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return (blocks, elements) quantised under given scales and scaled back."""
        factor = scale[:, None]
        ratio = blocks / factor
        if not self.fmt.micro_exponents:
            return self._elements(ratio) * factor
        shift = _micro_exponents(np.abs(ratio), self.fmt)
        elements = self._elements(np.ldexp(ratio, -shift))
        return np.asarray(np.ldexp(elements, shift) * factor)

    def exactly(self, blocks: NDArray[Any]) -> NDArray[np.float64]:
        """Return (blocks, elements) quantised, each block under its own scale."""
        wide = widened(blocks)
        return self.apply(wide, self.scales(_amax(wide)))

    def pieces(
        self, source: NDArray[Any], layout: Layout
    ) -> Iterator[tuple[Index, NDArray[np.float64], NDArray[np.float64]]]:
        """Yield (index, blocks, scales) that together cover the array.

        A block too large for one piece comes in several, under one scale.
        """
        if layout.tiled or layout.block[1] <= CHUNK:
            for index in layout.pieces():
                blocks = widened(layout.blocks(source, index))
                yield index, blocks, self.scales(_amax(blocks))
            return
        for parts in layout.large_blocks(CHUNK):
            amax = np.zeros(1)
            for index in parts:
                part = np.abs(widened(source[index]))
                amax = np.maximum(amax, part.max())
            scale = self.scales(amax)
            for index in parts:
                yield index, widened(source[index]).reshape(1, -1), scale

    def _elements(self, ratio: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.convert is None or ratio.size > self.room:
            rounded = round_once(ratio, self.fmt.element, self.modes, self.rng)
            return np.asarray(rounded, np.float64)
        out = np.empty(ratio.size, np.float64)
        self.convert(ratio.reshape(-1), out)
        return out.reshape(ratio.shape)


class Folded:
    """An array seen with the three axes of a layout.

    Args:
        array: the array.
        fmt: the block format.
        axis: the axis along which blocks run, or the channels' axis.
    """

    def __init__(self, array: NDArray[Any], fmt: BlockFormat, axis: int) -> None:
        self.layout = layout_for(array.shape, fmt.block, axis)
        self._axis = axis if fmt.block == "channel" and array.ndim else None
        self.source = self.fold(array)

    def fold(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the array with the layout's axes.

        A contiguous array is not copied, unless channels have to move to the front.
        """
        if self._axis is not None:
            array = np.moveaxis(array, self._axis, 0)
        return array.reshape(self.layout.shape)

    def unfold(self, values: NDArray[Any], out: NDArray[Any]) -> None:
        """Write folded values into `out`, shaped as the array."""
        if self._axis is None:
            out[...] = values.reshape(out.shape)
        else:
            front = np.moveaxis(out, self._axis, 0)
            front[...] = values.reshape(front.shape)

    @property
    def moves(self) -> bool:
        """Whether folding moves an axis, so that results cannot be written in place."""
        return self._axis is not None


def _amax(blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    return _largest(np.abs(blocks), blocks.shape[1])


def _largest(magnitude: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the largest of every `width` non-negative numbers, NaN where one is.

    Such numbers are ordered like their bits, NaN beyond them all, and integers are
    reduced several times faster.
    """
    bits = magnitude.reshape(-1).view(np.uint64)
    if bits.size == 0:
        return np.zeros(0)
    found = np.maximum.reduceat(bits, np.arange(0, bits.size, width))
    return np.asarray(found.view(np.float64))


def _finite_amax(array: NDArray[Any]) -> float:
    largest = 0.0
    for piece in chunks(in_memory_order(array)):
        magnitude = np.abs(widened(piece))
        top = float(_largest(magnitude, magnitude.size)[0]) if magnitude.size else 0.0
        if math.isfinite(top):
            largest = max(largest, top)
            continue
        finite = magnitude[np.isfinite(magnitude)]
        largest = max(largest, float(finite.max(initial=0.0)))
    return largest


def _micro_exponents(
    magnitude: NDArray[np.float64], fmt: BlockFormat
) -> NDArray[np.int32]:
    """Return the shift of every element: one bit from each level above it.

    A bit is set when the largest magnitude below it does not fit without it: from 4
    on for the upper of two levels (the lower one gives another factor of two), from 2
    on for the lower.
    """
    shift = np.zeros(magnitude.shape, np.int32)
    levels = len(fmt.micro_exponents)
    for level, groups in enumerate(fmt.micro_exponents):
        grouped = np.ldexp(magnitude, -shift) if level else magnitude
        width = magnitude.shape[1] // groups
        bit = _largest(grouped, width) >= 2.0 ** (levels - level)
        bit = bit.reshape(len(magnitude), groups)
        shift += np.repeat(bit, width, axis=1)
    return shift
