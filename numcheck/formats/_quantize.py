# SPDX-License-Identifier: Apache-2.0
"""`quantize`: what an array becomes in another format."""

from __future__ import annotations

import dataclasses
import operator
from typing import TYPE_CHECKING, Any

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.formats._block_format import BlockFormat
from numcheck.formats._block_report import report_blocks
from numcheck.formats._blocks import quantize_blocks
from numcheck.formats._modes import checked
from numcheck.formats._registry import get, lookup
from numcheck.formats._scalar import quantize_scalar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from numcheck.formats._block_format import Extent
    from numcheck.formats._block_report import BlockResult
    from numcheck.formats._format import Rounding
    from numcheck.formats._modes import Overflow, ScaleRule, Subnormals

__all__ = ["block_format", "block_report", "quantize"]


def quantize(  # noqa: PLR0913 - each a choice the user has, all by keyword
    x: object,
    fmt: object,
    *,
    rounding: Rounding | None = None,
    overflow: Overflow = "ieee",
    subnormals: Subnormals = "keep",
    axis: int = -1,
    block_size: int | tuple[int, int] | Extent | None = None,
    scale_rule: ScaleRule | None = None,
    seed: int | None = None,
    out: NDArray[np.floating[Any]] | None = None,
) -> NDArray[np.floating[Any]]:
    """Return what `x` becomes in a format, as ordinary floats.

    Every result is rounded once, from the input's exact value. NaN stays NaN, except
    in integer formats, where it is zero.

    Args:
        x: array of any float, integer or bool dtype.
        fmt: a format: a name (``fp16``, ``e4m3``, ``mxfp4``, ``q8.8``), a dtype, a
            `Format` or a `BlockFormat`.
        rounding: ``nearest_even`` (what None means for all formats but HiFloat8 and
            E8M0, whose own is ``nearest_away``), ``nearest_away``, ``toward_zero``,
            ``up``, ``down``, ``to_odd`` or ``stochastic``.
        overflow: ``ieee`` gives Inf where the format has it, else NaN, else the
            largest number; ``saturate`` gives the largest number, for Inf too;
            ``satfinite`` does but keeps Inf; ``wrap`` (integers) keeps the low bits.
            Elements of block formats always saturate.
        subnormals: ``keep``, or ``flush`` to zero.
        axis: the axis along which blocks run (with ``channel``: the channels' axis).
        block_size: shared scales for any format: elements per block, (rows, columns)
            of a tile, ``tensor`` or ``channel``. The scale is amax / max in float32,
            or a power of two when `scale_rule` is given.
        scale_rule: how a power-of-two scale is chosen: ``floor`` (OCP MX, the
            default of formats that have such a scale), ``ceil``, ``rceil``, ``even``.
        seed: makes stochastic rounding reproducible.
        out: where to write the result, a contiguous array of its shape and dtype.

    Returns:
        An array of the shape of `x`: float64 for float64 input, integers wider than
        16 bits and formats beyond float32; float32 for everything else.

    Raises:
        UnknownFormatError: no format has that name.
        ArgumentError: an argument cannot be used with this format.
        ArgumentTypeError: `x` holds no real numbers.

    Example:
        >>> quantize([0.1, 500.0, 3.14159], "e4m3").tolist()
        [0.1015625, nan, 3.25]
        >>> quantize([0.1, 500.0, 3.14159], "e4m3", overflow="saturate").tolist()
        [0.1015625, 448.0, 3.25]
        >>> quantize([6.0, 1.1, 0.1], "mxfp4").tolist()
        [6.0, 1.0, 0.0]
    """
    target = block_format(fmt, block_size, scale_rule)
    if target is None:
        return quantize_scalar(
            x,
            fmt,
            rounding=rounding,
            overflow=overflow,
            subnormals=subnormals,
            seed=seed,
            out=out,
        )
    if overflow == "wrap":
        raise ArgumentError(
            f"overflow='wrap' is for integer formats; {target.name} saturates"
        )
    return quantize_blocks(
        x,
        target,
        rounding=rounding,
        subnormals=subnormals,
        axis=axis,
        scale_rule=scale_rule,
        seed=seed,
        out=out,
    )


def block_report(
    x: object,
    fmt: object,
    *,
    rounding: Rounding | None = None,
    subnormals: Subnormals = "keep",
    axis: int = -1,
    block_size: int | tuple[int, int] | Extent | None = None,
    scale_rule: ScaleRule | None = None,
    seed: int | None = None,
) -> BlockResult:
    """Quantise to a block format and say what happened in every block.

    Args:
        x: array of real numbers, of any shape, which may be empty.
        fmt: a block format; or a scalar one, for which `block_size` is needed.
        rounding: of the elements, as in `quantize`.
        subnormals: as in `quantize`.
        axis: as in `quantize`.
        block_size: as in `quantize`.
        scale_rule: as in `quantize`.
        seed: as in `quantize`.

    Returns:
        A `BlockResult`: the values, and per block the scale, the shares flushed and
        clipped, and the SQNR in decibels. A block of zeros has shares 0 and SQNR
        +inf; one with NaN or Inf has scale and SQNR NaN.

    Raises:
        ArgumentError: the format has no blocks and none were asked for.

    Example:
        >>> r = block_report([6.0, 1.1, 0.1, 7.5], "mxfp4")
        >>> r.clipped.tolist(), round(float(r.sqnr_db[0]), 2)
        ([0.25], 16.15)
    """
    target = block_format(fmt, block_size, scale_rule)
    if target is None:
        raise ArgumentError(
            f"{get(fmt).name} has no shared scale; pass block_size=, or a block "
            "format such as mxfp8"
        )
    return report_blocks(
        x,
        target,
        rounding=rounding,
        subnormals=subnormals,
        axis=axis,
        scale_rule=scale_rule,
        seed=seed,
    )


def block_format(
    fmt: object,
    block_size: int | tuple[int, int] | Extent | None,
    scale_rule: ScaleRule | None,
) -> BlockFormat | None:
    """Return the block format that the arguments describe; None for a scalar format.

    Example:
        >>> block_format("e4m3", "channel", None).name
        'float8_e4m3fn/channel'
    """
    target = lookup(fmt)
    if block_size is not None:
        block_size = _checked_size(block_size)
    if isinstance(target, BlockFormat):
        if block_size is None or block_size == target.block:
            return target
        name = f"{target.name}/{_spelled(block_size)}"
        return dataclasses.replace(target, name=name, block=block_size)
    if block_size is None:
        if scale_rule is not None:
            raise ArgumentError(
                f"scale_rule needs a block format or block_size, and {target.name} "
                "has no shared scale"
            )
        return None
    scale = get("float32" if scale_rule is None else "e8m0")
    return BlockFormat(
        f"{target.name}/{_spelled(block_size)}", target, scale, block_size
    )


def _checked_size(
    block_size: int | tuple[int, int] | Extent,
) -> int | tuple[int, int] | Extent:
    if isinstance(block_size, str):
        checked(block_size, ("tensor", "channel"), "block_size")
        return block_size
    sides = block_size if isinstance(block_size, tuple) else (block_size,)
    if len(sides) not in (1, 2) or any(isinstance(side, bool) for side in sides):
        raise _no_size(block_size)
    try:
        whole = tuple(map(operator.index, sides))
    except TypeError as error:
        raise _no_size(block_size) from error
    return (whole[0], whole[1]) if len(whole) == 2 else whole[0]


def _no_size(given: object) -> ArgumentTypeError:
    return ArgumentTypeError(
        "block_size must be a whole number, a pair (rows, columns) of them, 'tensor' "
        f"or 'channel', got {given!r}"
    )


def _spelled(block_size: int | tuple[int, int] | Extent) -> str:
    if isinstance(block_size, tuple):
        return "x".join(map(str, block_size))
    return str(block_size)
