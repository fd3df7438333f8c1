# SPDX-License-Identifier: Apache-2.0
"""What every block lost on its way through a block format."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.formats._arrays import as_array
from numcheck.formats._block_task import BlockTask, Folded
from numcheck.formats._blocks import result_dtype_of_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._block_format import BlockFormat
    from numcheck.formats._format import Rounding
    from numcheck.formats._modes import ScaleRule, Subnormals

__all__ = ["BlockResult", "report_blocks"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BlockResult:
    """An array after a block format, and what happened in every block.

    The per-block arrays have the array's shape with blocks in place of elements.

    Attributes:
        values: the values after quantising and scaling back, shaped as the input.
        scale: the factor every element of the block was divided by; NaN for a block
            that held NaN or Inf, all of whose elements became NaN.
        flushed: share of the block's non-zero elements that became zero.
        clipped: share of them beyond the largest element times the scale.
        sqnr_db: 10·log10(Σx² / Σ(x - y)²) in decibels; +inf for an exact block, NaN
            for one that held NaN or Inf.
    """

    values: NDArray[np.floating[Any]]
    scale: NDArray[np.float64]
    flushed: NDArray[np.float64]
    clipped: NDArray[np.float64]
    sqnr_db: NDArray[np.float64]


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
    task = BlockTask.of(array, fmt, rounding, subnormals, scale_rule, seed)
    folded = Folded(array, fmt, axis)
    layout = folded.layout
    values = np.empty(folded.source.shape, result_dtype_of_blocks(array.dtype))
    scales = np.zeros(layout.scales_3d)
    sums = [np.zeros(layout.scales_3d) for _ in range(5)]
    for index, blocks, scale in task.pieces(folded.source, layout):
        quantized = task.apply(blocks, scale)
        with np.errstate(over="ignore"):
            layout.put(values, index, quantized)
        scales[layout.scale_index(index)] = layout.per_block(index, scale)
        for place, counted in zip(
            sums, _counted(blocks, quantized, scale, fmt), strict=True
        ):
            place[layout.scale_index(index)] += layout.per_block(index, counted)
    out = np.empty(array.shape, values.dtype)
    folded.unfold(values, out)
    return _result(out, scales, sums, layout.scales_shape)


def _counted(
    blocks: NDArray[np.float64],
    quantized: NDArray[np.float64],
    scale: NDArray[np.float64],
    fmt: BlockFormat,
) -> tuple[NDArray[Any], ...]:
    """Return per block: non-zero, flushed and clipped elements, signal and noise."""
    nonzero = blocks != 0
    limit = (scale * fmt.element_max)[:, None]
    with np.errstate(over="ignore"):
        signal = np.square(blocks).sum(axis=1)
        noise = np.square(blocks - quantized).sum(axis=1)
    return (
        np.count_nonzero(nonzero, axis=1),
        np.count_nonzero(nonzero & (quantized == 0), axis=1),
        np.count_nonzero(np.abs(blocks) > limit, axis=1),
        signal,
        noise,
    )


def _result(
    values: NDArray[Any],
    scales: NDArray[np.float64],
    sums: list[NDArray[np.float64]],
    shape: tuple[int, ...],
) -> BlockResult:
    nonzero, flushed, clipped, signal, noise = (s.reshape(shape) for s in sums)
    total = np.maximum(nonzero, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 10 * np.log10(signal / noise)
    sqnr = np.where(noise == 0, math.inf, ratio)
    return BlockResult(
        values, scales.reshape(shape), flushed / total, clipped / total, sqnr
    )
