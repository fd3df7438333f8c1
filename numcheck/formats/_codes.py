# SPDX-License-Identifier: Apache-2.0
"""From codes to values: what each bit pattern of a format means."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.formats._arrays import chunks
from numcheck.formats._registry import get

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from numcheck.formats._format import Format

__all__ = ["code_dtype", "code_values", "decode", "value_dtype"]

_TABLE_BITS: Final = 16
_FLOAT32_EMIN: Final = -126
_FLOAT32_LOWEST: Final = -149
_FLOAT32_EMAX: Final = 127
_FLOAT32_PRECISION: Final = 24


def decode(codes: ArrayLike, fmt: object) -> NDArray[np.floating[Any]]:
    """Return the value of every code.

    Args:
        codes: integers of any shape, each a bit pattern of the format in its low
            bits; negative ones count as two's complement.
        fmt: the format, as a name, dtype or `Format`.

    Returns:
        float32 where that holds every value of the format, else float64; same shape.

    Raises:
        ArgumentError: a code needs more bits than the format has.

    Example:
        >>> decode([0x00, 0x7E, 0x7F], "e4m3")
        array([  0., 448.,  nan], dtype=float32)
    """
    target = get(fmt)
    array = np.asarray(codes)
    if array.size == 0:
        return np.zeros(array.shape, value_dtype(target))
    if array.dtype.kind not in "iub":
        raise ArgumentTypeError(
            f"codes must be integers, got an array of {array.dtype}"
        )
    _check_width(array, target)
    values = np.empty(array.shape, value_dtype(target))
    flat, start = values.reshape(-1), 0
    for piece in chunks(array):
        flat[start : start + piece.size] = _decoded(piece, target)
        start += piece.size
    return values


def _decoded(codes: NDArray[Any], fmt: Format) -> NDArray[np.float64]:
    if codes.dtype.kind == "i":
        mask = np.uint64((1 << fmt.bits) - 1)
        codes = codes.astype(np.int64).view(np.uint64) & mask
    if fmt.bits <= _TABLE_BITS:
        return np.asarray(code_values(fmt)[codes.astype(np.intp)])
    return _values(codes.astype(np.uint64), fmt)


@functools.lru_cache(maxsize=64)
def code_values(fmt: Format) -> NDArray[np.float64]:
    """Return the values of all codes of a format of up to 16 bits, as float64.

    Example:
        >>> code_values(get("e2m1"))[:8].tolist()
        [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    """
    values = _values(np.arange(1 << fmt.bits, dtype=np.uint64), fmt)
    values.flags.writeable = False
    return values


def code_dtype(fmt: Format) -> np.dtype[Any]:
    """Return the smallest integer dtype that holds the format's codes.

    Signed for signed integers, whose codes are the numbers themselves.

    Example:
        >>> code_dtype(get("float6_e2m3fn")), code_dtype(get("int8"))
        (dtype('uint8'), dtype('int8'))
    """
    width = next(w for w in (8, 16, 32, 64) if fmt.bits <= w)
    sign = "i" if fmt.kind == "integer" and fmt.signed else "u"
    return np.dtype(f"{sign}{width // 8}")


def value_dtype(fmt: Format) -> np.dtype[Any]:
    """Return float32 where it holds every value of the format, else float64.

    Example:
        >>> value_dtype(get("bfloat16")), value_dtype(get("e11m10"))
        (dtype('float32'), dtype('float64'))
    """
    fits = (
        fmt.precision <= _FLOAT32_PRECISION
        and fmt.emax <= _FLOAT32_EMAX
        and fmt.smallest_subnormal >= 2.0**_FLOAT32_LOWEST
        and (fmt.kind == "scale" or fmt.emin >= _FLOAT32_EMIN)
    )
    return np.dtype(np.float32 if fits else np.float64)


def _check_width(array: NDArray[Any], fmt: Format) -> None:
    low, high = int(array.min()), int(array.max())
    if high >= 1 << fmt.bits or low < -(1 << (fmt.bits - 1)):
        worst = high if high >= 1 << fmt.bits else low
        raise ArgumentError(
            f"code {worst} does not fit {fmt.name}, whose codes have {fmt.bits} bits"
        )


def _values(codes: NDArray[np.uint64], fmt: Format) -> NDArray[np.float64]:
    if fmt.kind == "tapered":
        return np.array(fmt.values, np.float64)[codes.astype(np.intp)]
    if fmt.kind == "integer":
        return _integers(codes, fmt)
    if fmt.kind == "scale":
        exponents = codes.astype(np.int64) - fmt.bias
        powers = np.ldexp(1.0, exponents.astype(np.int32))
        return np.where(codes > fmt.max_code, np.nan, powers)
    return _floats(codes, fmt)


def _integers(codes: NDArray[np.uint64], fmt: Format) -> NDArray[np.float64]:
    numbers = codes.astype(np.int64) if fmt.signed else codes
    if fmt.signed and fmt.bits < 64:
        sign = np.int64(1 << (fmt.bits - 1))
        numbers = (numbers.astype(np.int64) ^ sign) - sign
    return np.ldexp(numbers.astype(np.float64), -fmt.fraction_bits)


def _floats(codes: NDArray[np.uint64], fmt: Format) -> NDArray[np.float64]:
    stored = fmt.mantissa_bits
    sign_bit = np.uint64(1 << (fmt.bits - 1))
    magnitude = codes & (sign_bit - np.uint64(1))
    field = (magnitude >> np.uint64(stored)).astype(np.int32)
    trailing = (magnitude & np.uint64((1 << stored) - 1)).astype(np.float64)
    significand = trailing + np.where(field > 0, 2.0**stored, 0.0)
    with np.errstate(over="ignore"):  # codes of Inf and NaN, replaced below
        values = np.ldexp(significand, np.maximum(field, 1) - fmt.bias - stored)
    special = magnitude > np.uint64(fmt.max_code)
    if fmt.specials in ("ieee", "extended"):
        infinity = magnitude == np.uint64(fmt.max_code + 1)
        values[special] = np.where(infinity, np.inf, np.nan)[special]
    else:
        values[special] = np.nan
    values = np.where(codes & sign_bit, -values, values)
    if fmt.specials in ("fnuz", "extended"):
        values[codes == sign_bit] = np.nan
    return np.asarray(values, np.float64)
