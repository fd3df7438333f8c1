# SPDX-License-Identifier: Apache-2.0
"""Rounding to nearest-even with a handful of additions.

Adding C = 1.5 · 2**(e + stored - m) to a number of exponent e pushes the bits that the
format drops out of the sum, which rounds to nearest-even as every IEEE 754 sum does;
subtracting C again leaves the rounded number. Below `emin` the spacing stays, so C
does. A magnitude beyond the format's largest number is rare, and redone by
`redo`, exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from numcheck.formats._format import Format

    Floats = NDArray[np.floating[Any]]

__all__ = ["AddRounder", "CarryRounder", "can_add", "can_carry"]


class _Layout:
    """The parts of a float32 or float64 as integers of its width."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        layout = np.finfo(dtype)
        self.unsigned = np.dtype(f"u{dtype.itemsize}")
        self.stored = int(layout.nmant)
        self.bias = 1 - int(layout.minexp)
        self.sign = self.of(1 << (layout.bits - 1))
        self.magnitude = self.of((1 << (layout.bits - 1)) - 1)
        self.exponent = self.of(((1 << layout.iexp) - 1) << self.stored)

    def of(self, number: int) -> Any:  # noqa: ANN401 - uint32 or uint64
        """Return a Python integer as a scalar of the unsigned dtype."""
        return self.unsigned.type(number)

    def power(self, exponent: int) -> int:
        """Return the bits of 2**exponent, a normal number."""
        return (exponent + self.bias) << self.stored


def can_add(fmt: Format, dtype: np.dtype[Any]) -> bool:
    """Whether `AddRounder` serves: no constant C may leave the range of `dtype`.

    Example:
        >>> from numcheck.formats import get
        >>> can_add(get("fp16"), np.dtype("f4")), can_add(get("bf16"), np.dtype("f4"))
        (True, False)
    """
    layout = np.finfo(dtype)
    return (
        fmt.kind == "float"
        and fmt.mantissa_bits <= layout.nmant - 1
        and fmt.emin >= layout.minexp
        and fmt.emax + 2 + layout.nmant - fmt.mantissa_bits < layout.maxexp
    )


class AddRounder:
    """Rounds contiguous pieces to nearest-even.

    Args:
        dtype: float32 or float64.
        fmt: a format for which `can_add` holds.
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
        shift = bits.stored - fmt.mantissa_bits
        self._add = bits.of((shift << bits.stored) | (1 << (bits.stored - 1)))
        self._lowest = np.full(room, bits.power(fmt.emin), bits.unsigned)
        self._constant = np.empty(room, bits.unsigned)
        # Exponent fields from which a magnitude may leave the range, and up to which
        # it may become zero.
        self._high = bits.of(bits.power(fmt.emax))
        threshold = dtype.type(fmt.underflow_threshold).view(bits.unsigned)
        self._low = threshold & bits.exponent

    def __call__(self, x: Floats, out: Floats) -> None:
        """Round `x` into `out`."""
        bits, n = self._bits, x.size
        if n == 0:
            return
        source, constant = x.view(bits.unsigned), self._constant[:n]
        np.bitwise_and(source, bits.exponent, out=constant)
        smallest, largest = constant.min(), constant.max()
        np.maximum(constant, self._lowest[:n], out=constant)
        constant += self._add
        c = constant.view(self._dtype)
        if largest < self._high:
            np.add(x, c, out=out)
            out -= c
        else:
            self._add_beyond(x, c, out)
        if smallest <= self._low and self._fmt.has_neg_zero:
            # The sums gave +0 for everything that became zero.
            np.bitwise_and(source, bits.sign, out=constant)
            target = out.view(bits.unsigned)
            target |= constant

    def _add_beyond(self, x: Floats, c: Floats, out: Floats) -> None:
        # Numbers far beyond the range make meaningless sums, replaced here.
        with np.errstate(invalid="ignore", over="ignore"):
            beyond = ~(np.abs(x) <= self._fmt.max)
            again = self._redo(x[beyond])
            np.add(x, c, out=out)
            out -= c
        out[beyond] = again


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
        self._kept = bits.of(int(bits.sign | bits.magnitude) ^ dropped)
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
