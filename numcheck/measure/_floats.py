# SPDX-License-Identifier: Apache-2.0
"""The pass over arrays of floats behind `summarize`.

Floats of one sign are ordered like their bits, so integer reductions, which are
several times faster than floating-point ones and do not trip over NaN, give all
extremes. Only a piece that holds zeros, subnormals, NaN or Inf is looked at again to
count them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.measure._binades import BinadeCounter
from numcheck.measure._scratch import Scratch
from numcheck.measure._sums import Sums
from numcheck.measure.summary import Summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format

    Floats = NDArray[np.floating[Any]]
    Bits = NDArray[np.unsignedinteger[Any]]

__all__ = ["FloatPass", "piece_size"]

# Elements at once: enough to earn back the calls' fixed cost, few enough to be still
# in the cache when they are looked at again. Multiples of three, since exponents are
# counted by threes, and of the rows of sums.
_PIECE: Final = 3 * 7 * 8192
_NARROW_PIECE: Final = 3 * 10 * 8192
# Of scratch memory an element: sums take 12, counting binades 8, the bits 8.
_BYTES: Final = 28


def piece_size(dtype: np.dtype[Any]) -> int:
    """Return how many elements of a dtype to look at together.

    Example:
        >>> piece_size(np.dtype(np.float16)) > piece_size(np.dtype(np.float32))
        True
    """
    return _NARROW_PIECE if dtype.itemsize <= 2 else _PIECE


class FloatPass:
    """Counts, extremes and sums, gathered piece by piece.

    Args:
        fmt: float64, float32, float16 or bfloat16, the format of every piece.
        dtype: its dtype.
        size: number of elements to come.
        histogram: whether to count elements per binade; for 32 and 64 bits only.
    """

    def __init__(
        self, fmt: Format, dtype: np.dtype[Any], size: int, *, histogram: bool
    ) -> None:
        self._dtype = dtype
        self._unsigned = np.dtype(f"u{dtype.itemsize}")
        self._signed = np.dtype(f"i{dtype.itemsize}")
        self._magnitude = (1 << (fmt.bits - 1)) - 1
        self._inf = fmt.max_code + 1
        self._normal = 1 << fmt.mantissa_bits
        room = min(size, piece_size(dtype))
        scratch = Scratch(room * _BYTES)
        self._size = scratch.take(room, self._unsigned)
        self._sums = Sums(fmt, room, scratch)
        self._binades = BinadeCounter(dtype, size, room, scratch) if histogram else None
        self._n = self._nan = self._pos_inf = self._neg_inf = 0
        self._zero = self._subnormal = 0
        # Of the finite elements, as magnitude bits with the number's sign.
        self._lowest: int | None = None
        self._highest: int | None = None
        self._least: int | None = None

    def add(self, piece: Floats) -> None:
        """Take in one contiguous piece of at most `piece_size` elements."""
        if piece.size == 0:
            return
        bits, signed = piece.view(self._unsigned), piece.view(self._signed)
        # Numbers without a sign bit are the non-negative signed integers and the
        # smaller unsigned ones; both orders follow the magnitude.
        highest = int(np.maximum.reduce(signed))
        lowest = int(np.maximum.reduce(bits))
        least = self._inf
        if highest >= 0:
            least = int(np.minimum.reduce(bits))
        if lowest > self._magnitude:
            lowest = -(lowest & self._magnitude)
            nearest = int(np.minimum.reduce(signed)) & self._magnitude
            if highest < 0:
                highest = -nearest
            least = min(least, nearest)
        else:
            lowest = least
        if max(highest, -lowest) >= self._inf:
            self._add_nonfinite(piece)
        else:
            self._n += piece.size
            self._reach(lowest, highest)
            self._add_finite(piece, least, max(highest, -lowest))

    def _add_nonfinite(self, piece: Floats) -> None:
        bits, of = piece.view(self._unsigned), self._unsigned.type
        # By its bits, for looking at a signalling NaN as a number warns.
        size = np.bitwise_and(bits, of(self._magnitude))
        finite = piece[size < of(self._inf)]
        nan = int(np.count_nonzero(size > of(self._inf)))
        positive = int(np.count_nonzero(bits == of(self._inf)))
        others = piece.size - finite.size
        self._n += others
        self._nan += nan
        self._pos_inf += positive
        self._neg_inf += others - nan - positive
        self.add(finite)

    def _reach(self, lowest: int, highest: int) -> None:
        if self._lowest is None or self._highest is None:
            self._lowest, self._highest = lowest, highest
        else:
            self._lowest = min(self._lowest, lowest)
            self._highest = max(self._highest, highest)

    def _add_finite(self, piece: Floats, least: int, most: int) -> None:
        if most == 0:
            self._zero += piece.size
            return
        bits, zeros = piece.view(self._unsigned), least == 0
        if least < self._normal:
            least = self._count_small(bits, least)
        self._least = least if self._least is None else min(self._least, least)
        if self._binades is not None:
            self._binades.add(bits, least, most, zeros=zeros)
        self._sums.add(piece)

    def _count_small(self, bits: Bits, least: int) -> int:
        """Count zeros and subnormals; return the smallest magnitude but zero."""
        size, of = self._size[: bits.size], self._unsigned.type
        np.bitwise_and(bits, of(self._inf), out=size)
        small = size.size - int(np.count_nonzero(size))
        if least == 0:
            np.bitwise_and(bits, of(self._magnitude), out=size)
            zeros = size.size - int(np.count_nonzero(size))
            self._zero += zeros
            small -= zeros
            # Zero becomes the largest integer, so the minimum is that of the others.
            np.subtract(size, of(1), out=size)
            least = int(np.minimum.reduce(size)) + 1
        self._subnormal += small
        return least

    def summary(self) -> Summary:
        """Return what was gathered so far."""
        low, high = self._ends()
        total, total_sq = self._sums.totals()
        most = None
        if self._lowest is not None and self._highest is not None:
            most = max(self._highest, -self._lowest)
        return Summary(
            n=self._n,
            nan=self._nan,
            pos_inf=self._pos_inf,
            neg_inf=self._neg_inf,
            zero=self._zero,
            subnormal=self._subnormal,
            low=low,
            high=high,
            amax=self._value(most),
            amin=self._value(self._least),
            total=total,
            total_sq=total_sq,
            exponents=None if self._binades is None else self._binades.counts(),
        )

    def _ends(self) -> tuple[float | None, float | None]:
        if self._nan:
            return math.nan, math.nan
        ends = [self._value(self._lowest), self._value(self._highest)]
        ends += [math.inf] * bool(self._pos_inf) + [-math.inf] * bool(self._neg_inf)
        known = [end for end in ends if end is not None]
        return min(known, default=None), max(known, default=None)

    def _value(self, signed: int | None) -> float | None:
        """Return the number with the given magnitude bits and sign."""
        if signed is None:
            return None
        size = self._unsigned.type(abs(signed)).view(self._dtype)
        return math.copysign(float(size), signed)
