# SPDX-License-Identifier: Apache-2.0
"""Quantising to block formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.formats._arrays import PIECE, as_array, widened
from numcheck.formats._block_task import BlockTask, Folded
from numcheck.formats._fast_blocks import PowerOfTwoBlocks, can_share_powers
from numcheck.formats._scalar import checked_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._block_format import BlockFormat
    from numcheck.formats._format import Rounding
    from numcheck.formats._modes import ScaleRule, Subnormals

__all__ = ["quantize_blocks", "result_dtype_of_blocks"]


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
    if out is not None and np.may_share_memory(array, out):
        array = array.copy()
    task = BlockTask.of(array, fmt, rounding, subnormals, scale_rule, seed)
    folded = Folded(array, fmt, axis)
    dtype = result_dtype_of_blocks(array.dtype)
    out = checked_out(out, array.shape, dtype)
    if folded.moves:
        values = np.empty(folded.source.shape, dtype)
    else:
        values = out.reshape(folded.source.shape)
    if dtype == np.float32 and can_share_powers(fmt, task.modes, scale_rule):
        _fill_fast(values, folded, task)
    else:
        for index, blocks, scale in task.pieces(folded.source, folded.layout):
            with np.errstate(over="ignore"):
                folded.layout.put(values, index, task.apply(blocks, scale))
    if folded.moves:
        folded.unfold(values, out)
    return out


def result_dtype_of_blocks(given: np.dtype[Any]) -> np.dtype[Any]:
    """Return float32 for what float32 holds exactly, else float64.

    Example:
        >>> result_dtype_of_blocks(np.dtype(np.float16))
        dtype('float32')
    """
    exact = given.itemsize <= 2 or given == np.float32
    return np.dtype(np.float32 if exact else np.float64)


def _fill_fast(values: NDArray[Any], folded: Folded, task: BlockTask) -> None:
    layout, source = folded.layout, folded.source
    convert = PowerOfTwoBlocks(task.fmt, task.rule, source.size, task.exactly)
    if layout.is_flat and source.flags.c_contiguous:
        # Blocks follow one another in memory: nothing is cut out or put back.
        flat, done = source.reshape(-1), values.reshape(-1)
        step = PIECE // layout.block[1] * layout.block[1]
        for start in range(0, flat.size, step):
            part = widened(flat[start : start + step], np.float32)
            convert(part, done[start : start + step])
        return
    for index in layout.pieces(PIECE):
        blocks = np.ascontiguousarray(widened(layout.blocks(source, index), np.float32))
        quantized = np.empty_like(blocks)
        convert(blocks.reshape(-1), quantized.reshape(-1))
        layout.put(values, index, quantized)
