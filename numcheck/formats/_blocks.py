# SPDX-License-Identifier: Apache-2.0
"""Quantising to block formats, and what each block lost."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.formats._arrays import as_array, chunks
from numcheck.formats._block_layout import layout_for
from numcheck.formats._fast_blocks import PIECE, PowerOfTwoBlocks, can_share_powers
from numcheck.formats._modes import checked, modes_for
from numcheck.formats._rounders import round_once
from numcheck.formats._scalar import checked_out
from numcheck.formats._scales import block_scales, tensor_scale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._block_format import BlockFormat
    from numcheck.formats._block_layout import Layout
    from numcheck.formats._format import Rounding
    from numcheck.formats._fast_blocks import PIECE, PowerOfTwoBlocks, can_share_powers
from numcheck.formats._modes import Modes, ScaleRule, Subnormals

__all__ = ["BlockResult", "quantize_blocks", "report_blocks"]

_RULES = ("floor", "ceil", "rceil", "even")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BlockResult:
    """An array after a block format, and what happened in every block.

    The per-block arrays have the array's shape with blocks in place of elements.

    Attributes:
        values: the values after quantising and scaling back, shaped as the input.
        scale: the factor every element of the block was divided by; NaN for a block
            that held NaN or Inf, all of whose elements became NaN.
        flushed: share of the block's non-zero elements that became zero.
        clipped: share of its elements beyond the largest element times the scale.
        sqnr_db: 10·log10(Σx² / Σ(x - y)²) in decibels; +inf for an exact block, NaN
            for one that held NaN or Inf.
    """

    values: NDArray[np.floating[Any]]
    scale: NDArray[np.float64]
    flushed: NDArray[np.float64]
    clipped: NDArray[np.float64]
    sqnr_db: NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """One conversion: everything that does not change from piece to piece."""

    fmt: BlockFormat
    modes: Modes
    rule: ScaleRule | None
    shared: float
    rng: np.random.Generator | None

    def exactly(
        self, blocks: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (blocks, elements) quantised, and the scale of each block."""
        fmt = self.fmt
        amax = np.abs(blocks).max(axis=1)
        bad = ~np.isfinite(amax)
        scale = block_scales(np.where(bad, 1.0, amax), fmt, self.rule, self.shared)
        scale[bad] = math.nan
        factor = scale[:, None]
        ratio = blocks / factor
        if not fmt.micro_exponents:
            return self._elements(ratio) * factor, scale
        shift = _micro_exponents(np.abs(ratio), fmt)
        return np.ldexp(self._elements(np.ldexp(ratio, -shift)), shift) * factor, scale

    def _elements(self, ratio: NDArray[np.float64]) -> NDArray[np.float64]:
        rounded = round_once(ratio, self.fmt.element, self.modes, self.rng)
        return np.asarray(rounded, np.float64)


def quantize_blocks(
    x: object,
    fmt: BlockFormat,
    *,
    rounding: Rounding | None = None,
    subnormals: Subnormals = "keep",
    axis: int = -1,
    scale_rule: ScaleRule | None = None,
    seed: int | None = None,
    out: NDArray[np.floating[Any]] | None = None,
) -> NDArray[np.floating[Any]]:
    """Return `x` quantised to a block format and scaled back.

    Args:
        x: array of real numbers.
        fmt: the block format.
        rounding: of the elements.
        subnormals: whether subnormal elements are kept or flushed to zero.
        axis: the axis along which blocks run.
        scale_rule: how a power-of-two scale is chosen, see `scale_exponents`.
        seed: for stochastic rounding.
        out: where to write the result.

    Returns:
        float64 for float64 input, else float32 (where a value beyond the float32
        range, which some rules allow, is Inf).

    Example:
        >>> from numcheck.formats import lookup
        >>> quantize_blocks([6.0, 1.1, 0.1], lookup("mxfp4")).tolist()
        [6.0, 1.0, 0.0]
    """
    array = as_array(x, "x")
    task = _task(array, fmt, rounding, subnormals, scale_rule, seed)
    layout = layout_for(array.shape, fmt.block, axis)
    source, restore = _three_axes(array, layout, fmt, axis)
    dtype = np.dtype(_result_dtype(array.dtype))
    out = checked_out(out, array.shape, dtype)
    aside = fmt.block == "channel"
    values = np.empty(source.shape, dtype) if aside else out.reshape(source.shape)
    if values.dtype == np.float32 and can_share_powers(fmt, task.modes, scale_rule):
        _fill_fast(values, source, layout, task)
    else:
        for index in layout.pieces():
            blocks = layout.blocks(source, index).astype(np.float64)
            with np.errstate(over="ignore"):
                layout.put(values, index, task.exactly(blocks)[0])
    if aside:
        out[...] = restore(values)
    return out


def report_blocks(
    x: object,
    fmt: BlockFormat,
    *,
    rounding: Rounding | None = None,
    subnormals: Subnormals = "keep",
    axis: int = -1,
    scale_rule: ScaleRule | None = None,
    seed: int | None = None,
) -> BlockResult:
    """Quantise as `quantize_blocks` does and report on every block.

    Example:
        >>> from numcheck.formats import lookup
        >>> r = report_blocks([6.0, 1.1, 0.1], lookup("mxfp4"))
        >>> r.values.tolist(), r.scale.tolist(), r.flushed.tolist()
        ([6.0, 1.0, 0.0], [1.0], [0.3333333333333333])
    """
    array = as_array(x, "x")
    task = _task(array, fmt, rounding, subnormals, scale_rule, seed)
    layout = layout_for(array.shape, fmt.block, axis)
    source, restore = _three_axes(array, layout, fmt, axis)
    values = np.empty(source.shape, _result_dtype(array.dtype))
    report = [np.empty(layout.scales_3d) for _ in range(4)]
    for index in layout.pieces():
        blocks = layout.blocks(source, index).astype(np.float64)
        quantized, scale = task.exactly(blocks)
        with np.errstate(over="ignore"):
            layout.put(values, index, quantized)
        numbers = _numbers(blocks, quantized, scale, fmt)
        for place, of_blocks in zip(report, numbers, strict=True):
            layout.put_scales(place, index, of_blocks)
    shaped = [place.reshape(layout.scales_shape) for place in report]
    return BlockResult(restore(values), *shaped)


def _task(
    array: NDArray[Any],
    fmt: BlockFormat,
    rounding: Rounding | None,
    subnormals: Subnormals,
    rule: ScaleRule | None,
    seed: int | None,
) -> _Task:
    if rule is not None:
        checked(rule, _RULES, "scale_rule")
    modes = modes_for(fmt.element, rounding, "saturate", subnormals)
    rng = np.random.default_rng(seed) if modes.rounding == "stochastic" else None
    return _Task(fmt, modes, rule, _tensor_scale(array, fmt), rng)


def _result_dtype(given: np.dtype[Any]) -> type[np.floating[Any]]:
    exact = given.itemsize <= 2 or given == np.float32
    return np.float32 if exact else np.float64


def _fill_fast(
    values: NDArray[Any], source: NDArray[Any], layout: Layout, task: _Task
) -> None:
    def exact(blocks: NDArray[Any]) -> NDArray[Any]:
        return task.exactly(blocks.astype(np.float64))[0]

    convert = PowerOfTwoBlocks(task.fmt, task.rule, exact)
    if layout.is_flat and source.flags.c_contiguous:
        # Blocks follow one another in memory: nothing is cut out or put back.
        flat, done, start = source.reshape(-1), values.reshape(-1), 0
        step = PIECE // layout.block[1] * layout.block[1]
        for start in range(0, flat.size, step):
            part = flat[start : start + step].astype(np.float32, copy=False)
            convert(part, done[start : start + step])
        return
    for index in layout.pieces(PIECE):
        blocks = np.ascontiguousarray(layout.blocks(source, index), np.float32)
        quantized = np.empty_like(blocks)
        convert(blocks.reshape(-1), quantized.reshape(-1))
        layout.put(values, index, quantized)


def _three_axes(
    array: NDArray[Any], layout: Layout, fmt: BlockFormat, axis: int
) -> tuple[NDArray[Any], Any]:
    """Return the array as the layout sees it, and the way back."""
    if fmt.block == "channel" and array.ndim:
        front = np.moveaxis(array, axis, 0)
        shape = front.shape

        def restore(values: NDArray[Any]) -> NDArray[Any]:
            return np.moveaxis(values.reshape(shape), 0, axis)

        return front.reshape(layout.shape), restore
    return array.reshape(layout.shape), lambda values: values.reshape(array.shape)


def _tensor_scale(array: NDArray[Any], fmt: BlockFormat) -> float:
    if fmt.tensor_scale is None:
        return 1.0
    largest = 0.0
    for piece in chunks(array):
        magnitude = np.abs(piece.astype(np.float64))
        finite = magnitude[np.isfinite(magnitude)]
        largest = max(largest, float(finite.max(initial=0.0)))
    return tensor_scale(largest, fmt)


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
        grouped = np.ldexp(magnitude, -shift).reshape(len(magnitude), groups, -1)
        bit = grouped.max(axis=2) >= 2.0 ** (levels - level)
        width = magnitude.shape[1] // groups
        shift += np.repeat(bit, width, axis=1)
    return shift


def _numbers(
    blocks: NDArray[np.float64],
    quantized: NDArray[np.float64],
    scale: NDArray[np.float64],
    fmt: BlockFormat,
) -> tuple[NDArray[np.float64], ...]:
    nonzero = blocks != 0
    flushed = np.count_nonzero(nonzero & (quantized == 0), axis=1)
    limit = (scale * fmt.element_max)[:, None]
    clipped = np.count_nonzero(np.abs(blocks) > limit, axis=1)
    signal = np.square(blocks).sum(axis=1)
    noise = np.square(blocks - quantized).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        sqnr = 10 * np.log10(signal / noise)
    sqnr = np.where(noise == 0, math.inf, sqnr)
    total = np.maximum(np.count_nonzero(nonzero, axis=1), 1)
    return scale, flushed / total, clipped / total, sqnr
