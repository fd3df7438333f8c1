# SPDX-License-Identifier: Apache-2.0
"""Integers with a scale and a zero point: x ≈ scale · (code - zero_point)."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.formats._arrays import as_array, chunks, widened
from numcheck.formats._encode import encode
from numcheck.formats._registry import get

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from numcheck.formats._format import Format, Rounding
    from numcheck.formats._modes import Overflow

__all__ = ["Affine", "affine_decode", "affine_encode", "affine_for"]


@dataclasses.dataclass(frozen=True, slots=True)
class Affine:
    """A mapping from numbers to the codes of an integer format.

    Attributes:
        format: the integer format.
        scale: number per code, positive; a number, or an array that broadcasts
            against the data (one scale a channel).
        zero_point: the code of 0, shaped as `scale`.
    """

    format: Format
    scale: ArrayLike
    zero_point: ArrayLike = 0


def affine_for(x: object, fmt: object, *, symmetric: bool = True) -> Affine:
    """Return the mapping that covers an array's finite values.

    Args:
        x: array of real numbers.
        fmt: an integer format.
        symmetric: whether 0 gets code 0 and the range is ±amax; else the range is
            that of the values and 0, and 0 gets the nearest code.

    Returns:
        A mapping with one scale, which is 1 where no finite element differs from 0.

    Raises:
        ArgumentError: the format is none of integers.

    Example:
        >>> affine_for([-1.0, 3.0], "uint8", symmetric=False).zero_point
        64
    """
    target = _integer(fmt)
    low = high = 0.0
    for piece in chunks(as_array(x, "x")):
        finite = widened(piece)
        finite = finite[np.isfinite(finite)]
        low = min(low, float(finite.min(initial=0.0)))
        high = max(high, float(finite.max(initial=0.0)))
    if symmetric:
        amax = max(-low, high)
        return Affine(target, _positive(amax / target.max) if amax else 1.0)
    steps = target.max - target.min
    # Divided first, for the difference itself may leave the range of float64.
    scale = _positive(high / steps - low / steps) if high > low else 1.0
    return Affine(target, scale, int(np.rint(target.min - low / scale)))


def affine_encode(
    x: object,
    mapping: Affine,
    *,
    rounding: Rounding | None = None,
    overflow: Overflow = "saturate",
) -> NDArray[np.integer[Any]]:
    """Return the codes of `x`: round(x / scale) + zero_point, saturated or wrapped.

    NaN gets the zero point, Inf the nearest limit.

    Args:
        x: array of real numbers.
        mapping: the integer format with its scale and zero point.
        rounding: as in `quantize`.
        overflow: ``saturate`` or ``wrap``.

    Returns:
        Codes in the smallest integer dtype that holds them, of the shape of `x`.

    Raises:
        ArgumentError: a scale is not positive.
        ArgumentTypeError: `mapping` is none, or `x` holds no real numbers.

    Example:
        >>> affine_encode([0.5, 100.0], Affine(get("int8"), 0.25)).tolist()
        [2, 127]
    """
    scale = np.asarray(_checked(mapping).scale, np.float64)
    if not (scale > 0).all():
        raise ArgumentError(f"scale must be positive, got {mapping.scale!r}")
    array = widened(as_array(x, "x"))
    ratio = np.where(np.isnan(array), 0, array) / scale
    # The zero point is whole, so it may be added before rounding only where no bits
    # are lost; rounding to a wide integer first is exact.
    whole = encode(ratio, "int53", rounding=rounding).astype(np.float64)
    shifted = whole + np.asarray(mapping.zero_point, np.float64)
    shifted = np.where(np.isinf(ratio), ratio, shifted)
    return encode(shifted, mapping.format, overflow=overflow)


def affine_decode(codes: ArrayLike, mapping: Affine) -> NDArray[np.float64]:
    """Return scale · (code - zero_point).

    Args:
        codes: integers of any shape.
        mapping: the integer format with its scale and zero point.

    Returns:
        float64 of the shape of `codes`.

    Raises:
        ArgumentTypeError: `mapping` is none, or the codes are no numbers.

    Example:
        >>> affine_decode([2, 127], Affine(get("int8"), 0.25)).tolist()
        [0.5, 31.75]
    """
    numbers = as_array(codes, "codes").astype(np.float64)
    zero_point = np.asarray(_checked(mapping).zero_point, np.float64)
    return np.asarray((numbers - zero_point) * np.asarray(mapping.scale, np.float64))


def _checked(mapping: object) -> Affine:
    if not isinstance(mapping, Affine):
        raise ArgumentTypeError(
            f"mapping must be an Affine, as affine_for gives, got {mapping!r}"
        )
    return mapping


def _positive(scale: float) -> float:
    return max(scale, sys.float_info.min)


def _integer(fmt: object) -> Format:
    target = get(fmt)
    if target.kind != "integer":
        raise ArgumentError(f"an integer format is needed here, not {target.name}")
    return target
