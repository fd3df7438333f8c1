# SPDX-License-Identifier: Apache-2.0
"""From values to codes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from numcheck.errors import ArgumentError
from numcheck.formats._arrays import as_array, as_floats, chunks
from numcheck.formats._codes import code_dtype, code_values, value_dtype
from numcheck.formats._modes import modes_for
from numcheck.formats._registry import get
from numcheck.formats._rounders import generator, rounder
from numcheck.formats._scalar import result_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format, Rounding
    from numcheck.formats._modes import Overflow, Subnormals

__all__ = ["encode"]

_NARROW_BITS: Final = 8
_NATIVE: Final[dict[str, Any]] = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


def encode(
    x: object,
    fmt: object,
    *,
    rounding: Rounding | None = None,
    overflow: Overflow = "ieee",
    subnormals: Subnormals = "keep",
    seed: int | None = None,
) -> NDArray[np.integer[Any]]:
    """Return the codes of `x` in a scalar format, rounding as `quantize` does.

    Args:
        x: array of real numbers.
        fmt: a scalar format.
        rounding: as in `quantize`.
        overflow: as in `quantize`.
        subnormals: as in `quantize`.
        seed: as in `quantize`.

    Returns:
        Bit patterns in the smallest integer dtype that holds them, signed for signed
        integer formats; same shape. NaN becomes the quiet NaN without a sign.

    Raises:
        ArgumentError: `x` holds NaN and the format has no code for it.

    Example:
        >>> encode([1.0, 448.0, -0.0], "e4m3")
        array([ 56, 126, 128], dtype=uint8)
    """
    target, array = get(fmt), as_array(x, "x")
    modes = modes_for(target, rounding, overflow, subnormals)
    if target.kind == "integer" and _is_whole(array, target):
        return array.astype(code_dtype(target))
    rng = generator(modes, seed)
    dtype = result_dtype(array.dtype, target)
    convert = rounder(dtype, target, modes, array.size, rng)
    codes = np.empty(array.shape, code_dtype(target))
    flat, start = codes.reshape(-1), 0
    for piece in chunks(array):
        values = np.empty(piece.size, dtype)
        convert(as_floats(piece, dtype, target.precision), values)
        if not target.has_nan and np.isnan(values).any():
            raise ArgumentError(_nan_text(target, array))
        flat[start : start + piece.size] = _codes(values, target)
        start += piece.size
    return codes


def _codes(values: NDArray[np.floating[Any]], fmt: Format) -> NDArray[Any]:
    if fmt.kind == "integer":
        steps = np.ldexp(values, fmt.fraction_bits)
        return np.asarray(steps.astype(code_dtype(fmt)))
    if fmt.name in _NATIVE:
        codes = _native_codes(values, fmt)
    elif (table := _narrow_table(fmt)) is not None:
        upper = values.astype(np.float32).view(np.uint32) >> np.uint32(16)
        codes = table[upper]
    else:
        find = _float_codes if fmt.kind == "float" else _listed_codes
        codes = find(values.astype(np.float64), fmt)
    codes[np.isnan(values)] = _nan_code(fmt)
    return codes


def _is_whole(array: NDArray[Any], fmt: Format) -> bool:
    """Whether these are integers within the range of a format of integers."""
    if array.dtype.kind not in "iu" or fmt.fraction_bits or array.size == 0:
        return False
    lowest = -(1 << (fmt.bits - 1)) if fmt.signed else 0
    highest = (1 << (fmt.bits - fmt.sign_bits)) - 1
    return lowest <= int(array.min()) and int(array.max()) <= highest


def _nan_text(fmt: Format, array: NDArray[Any]) -> str:
    with np.errstate(invalid="ignore"):  # a signalling NaN of ml_dtypes
        count = sum(int(np.count_nonzero(np.isnan(piece))) for piece in chunks(array))
    return f"{fmt.name} has no code for NaN, and x holds {count} of {array.size}"


@functools.lru_cache(maxsize=64)
def _narrow_table(fmt: Format) -> NDArray[np.uint8] | None:
    """Return the code of every value of a format of at most 8 bits.

    Its index is the upper half of the value as a float32; None where that half does
    not say all about some value.
    """
    if fmt.bits > _NARROW_BITS or value_dtype(fmt) != np.float32:
        return None
    with np.errstate(invalid="ignore"):
        bits = code_values(fmt).astype(np.float32).view(np.uint32)
    codes = np.flatnonzero(~np.isnan(code_values(fmt)))
    if (bits[codes] & np.uint32(0xFFFF)).any():
        return None
    table = np.zeros(1 << 16, np.uint8)
    table[bits[codes] >> np.uint32(16)] = codes
    return table


def _native_codes(values: NDArray[np.floating[Any]], fmt: Format) -> NDArray[Any]:
    """Return the bits of values of a format that numpy or ml_dtypes holds itself."""
    dtype = np.dtype(_NATIVE[fmt.name])
    with np.errstate(invalid="ignore"):  # a signalling NaN, whose code is replaced
        held = values.astype(dtype)
    return held.view(np.dtype(f"u{dtype.itemsize}"))


def _float_codes(values: NDArray[np.float64], fmt: Format) -> NDArray[np.uint64]:
    magnitude = np.where(np.isfinite(values), np.abs(values), 0)
    exponent = np.where(magnitude > 0, np.frexp(magnitude)[1] - 1, fmt.emin)
    exponent = np.maximum(exponent, fmt.emin)
    # Up to 2**precision spacings: the implicit bit carries into the exponent field.
    spacings = np.ldexp(magnitude, fmt.mantissa_bits - exponent).astype(np.uint64)
    field = (exponent - fmt.emin).astype(np.uint64) << np.uint64(fmt.mantissa_bits)
    codes = spacings + field
    codes[np.isinf(values)] = fmt.max_code + 1
    codes[np.signbit(values)] |= np.uint64(1 << (fmt.bits - 1))
    return np.asarray(codes, np.uint64)


def _listed_codes(values: NDArray[np.float64], fmt: Format) -> NDArray[np.uint64]:
    known = code_values(fmt)
    order = np.argsort(known)
    order = order[~np.isnan(known[order])]
    place = np.searchsorted(known[order], values)
    return order[np.minimum(place, order.size - 1)].astype(np.uint64)


def _nan_code(fmt: Format) -> int:
    if fmt.kind == "tapered":
        return int(np.flatnonzero(np.isnan(code_values(fmt)))[0])
    if fmt.kind == "scale":
        return fmt.max_code + 1
    if fmt.specials in ("fnuz", "extended"):
        return 1 << (fmt.bits - 1)
    if fmt.specials == "fn":
        return fmt.max_code + 1
    # IEEE 754-2019 §6.2.1: the quiet bit is the first of the trailing significand.
    return (fmt.max_code + 1) | (1 << (fmt.mantissa_bits - 1))
