# SPDX-License-Identifier: Apache-2.0
"""Rounding to nearest-even with a handful of operations on whole pieces.

A number of exponent e is rounded to a multiple of the format's spacing there,
2**(e - m), by dividing by it, rounding to a whole number and multiplying again. Both
steps are exact, since the spacing is a power of two, and the sign of a zero survives
all three. Below `emin` the spacing stays. A magnitude beyond the format's largest
number is rare, and redone by `redo`, exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from numcheck.formats._format import Format

    Floats = NDArray[np.floating[Any]]

__all__ = [
    "CarryRounder",
    "CastRounder",
    "SpacingRounder",
    "can_carry",
    "can_space",
]


class _Layout:
    """The parts of a float32 or float64 as integers of its width."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        layout = np.finfo(dtype)
        self.unsigned = np.dtype(f"u{dtype.itemsize}")
        self.stored = int(layout.nmant)
        self.bias = 1 - int(layout.minexp)
        self.magnitude = self.of((1 << (layout.bits - 1)) - 1)
        self.exponent = self.of(((1 << layout.iexp) - 1) << self.stored)

    def of(self, number: int) -> Any:  # noqa: ANN401 - uint32 or uint64
        """Return a Python integer as a scalar of the unsigned dtype."""
        return self.unsigned.type(number)

    def power(self, exponent: int) -> int:
        """Return the bits of 2**exponent, a normal number."""
        return (exponent + self.bias) << self.stored


def can_space(fmt: Format, dtype: np.dtype[Any]) -> bool:
    """Whether `SpacingRounder` serves: every spacing is a normal number of `dtype`.

    Example:
        >>> from numcheck.formats import get
        >>> (
        ...     can_space(get("fp16"), np.dtype("f4")),
        ...     can_space(get("bf16"), np.dtype("f4")),
        ... )
        (True, False)
    """
    layout = np.finfo(dtype)
    return (
        fmt.kind == "float"
        and fmt.mantissa_bits < layout.nmant
        and fmt.emin - fmt.mantissa_bits >= layout.minexp
        and fmt.emax < layout.maxexp
    )


class SpacingRounder:
    """Rounds contiguous pieces to nearest-even.

    Args:
        dtype: float32 or float64.
        fmt: a format for which `can_space` holds.
        room: largest number of elements of a piece.
        redo: rounds the few elements whose magnitude is beyond `fmt.max`.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        fmt: Format,
        room: int,
        redo: Callable[[Floats], Floats],
    ) -> None:
        bits = _Layout(dtype)
        self._bits, self._redo, self._fmt, self._dtype = bits, redo, fmt, dtype
        self._lowest = bits.of(bits.power(fmt.emin))
        self._spacing = np.empty(room, bits.unsigned)
        self._down = bits.of(fmt.mantissa_bits << bits.stored)
        # The exponent field from which on a magnitude may leave the range.
        self._high = bits.of(bits.power(fmt.emax))

    def __call__(self, x: Floats, out: Floats) -> None:
        """Round `x` into `out`, which shares no memory with it."""
        bits, n = self._bits, x.size
        if n == 0:
            return
        field = self._spacing[:n]
        np.bitwise_and(x.view(bits.unsigned), bits.exponent, out=field)
        may_leave = np.maximum.reduce(field) >= self._high
        # Unlike np.maximum, clip is fast with scalars.
        field.clip(self._lowest, bits.exponent, out=field)
        np.subtract(field, self._down, out=field)
        spacing = field.view(self._dtype)
        # What overflows on the way is replaced below.
        with np.errstate(all="ignore"):
            np.divide(x, spacing, out=out)
            np.rint(out, out=out)
            np.multiply(out, spacing, out=out)
            if not self._fmt.has_neg_zero:
                np.add(out, 0.0, out=out)
            if may_leave:
                beyond = np.flatnonzero(~(np.abs(x) <= self._fmt.max))
                out[beyond] = self._redo(x[beyond])


def can_carry(fmt: Format, dtype: np.dtype[Any]) -> bool:
    """Whether `CarryRounder` serves: the format is float32 with fewer bits.

    Example:
        >>> from numcheck.formats import get
        >>> (
        ...     can_carry(get("tf32"), np.dtype("f4")),
        ...     can_carry(get("fp16"), np.dtype("f4")),
        ... )
        (True, False)
    """
    layout = np.finfo(dtype)
    return (
        fmt.kind == "float"
        and fmt.specials == "ieee"
        and fmt.emin == layout.minexp
        and 0 < fmt.mantissa_bits < layout.nmant
    )


class CarryRounder:
    """Rounds to a format with the exponent field of `dtype` itself, by one addition.

    The carry runs from the significand into the exponent, and beyond the largest
    number into the code of Inf; subnormals need no care.

    Args:
        dtype: float32 or float64.
        fmt: a format for which `can_carry` holds.
        room: largest number of elements of a piece.
        redo: rounds the few elements that overflow or are not finite.
    """

    def __init__(
        self,
        dtype: np.dtype[Any],
        fmt: Format,
        room: int,
        redo: Callable[[Floats], Floats],
    ) -> None:
        bits = _Layout(dtype)
        self._bits, self._redo, self._dtype = bits, redo, dtype
        self._max = fmt.max
        self._shift = bits.of(bits.stored - fmt.mantissa_bits)
        self._half = bits.of((1 << (bits.stored - fmt.mantissa_bits - 1)) - 1)
        dropped = (1 << (bits.stored - fmt.mantissa_bits)) - 1
        self._kept = bits.of(int(~bits.of(0)) ^ dropped)
        self._odd = np.empty(room, bits.unsigned)

    def __call__(self, x: Floats, out: Floats) -> None:
        """Round `x` into `out`."""
        bits, n = self._bits, x.size
        if n == 0:
            return
        source, target, odd = x.view(bits.unsigned), out.view(bits.unsigned), self._odd
        odd = odd[:n]
        np.bitwise_and(source, bits.magnitude, out=odd)
        largest = odd.max().view(self._dtype)
        beyond = None if largest <= self._max else ~(np.abs(x) <= self._max)
        again = None if beyond is None else self._redo(x[beyond])
        np.right_shift(source, self._shift, out=odd)
        odd &= bits.of(1)
        odd += self._half
        np.add(source, odd, out=target)
        target &= self._kept
        if beyond is not None:
            out[beyond] = again


class CastRounder:
    """Rounds contiguous float32 pieces to bfloat16 by casting them there and back.

    Args:
        room: largest number of elements of a piece.
        redo: rounds the few elements that are not finite as a bfloat16, where
            they shall not stay so; None where the cast's Inf and NaN are right.
    """

    _INF = np.uint16(0x7F80)
    _MAGNITUDE = np.uint16(0x7FFF)

    def __init__(self, room: int, redo: Callable[[Floats], Floats] | None) -> None:
        self._narrow = np.empty(room, ml_dtypes.bfloat16)
        self._redo = redo

    def __call__(self, x: Floats, out: Floats) -> None:
        """Round `x` into `out`."""
        narrow = self._narrow[: x.size]
        with np.errstate(all="ignore"):
            np.copyto(narrow, x, casting="unsafe")
            np.copyto(out, narrow)
        if self._redo is not None:
            beyond = (narrow.view(np.uint16) & self._MAGNITUDE) >= self._INF
            if beyond.any():
                out[beyond] = self._redo(x[beyond])
