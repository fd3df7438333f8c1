# SPDX-License-Identifier: Apache-2.0
"""The pass over arrays of floats behind `summarize`.

Floats of one sign are ordered like their bits, so integer reductions, which are
several times faster than floating-point ones and do not trip over NaN, give all
extremes. Only a piece that holds zeros, subnormals, NaN or Inf is looked at again to
count them.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.measure._binades import PIECE, BinadeCounter
from numcheck.measure._halves import Widener
from numcheck.measure.summary import Summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format

    Floats = NDArray[np.floating[Any]]
    Bits = NDArray[np.unsignedinteger[Any]]

__all__ = ["FloatPass"]


@dataclasses.dataclass(slots=True)
class _State:
    n: int = 0
    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0
    zero: int = 0
    subnormal: int = 0
    low: float | None = None
    high: float | None = None
    amax: float | None = None
    amin: float | None = None
    total: float = 0.0
    total_sq: float = 0.0


class FloatPass:
    """Counts and extremes, gathered piece by piece.

    Args:
        fmt: float64, float32, float16 or bfloat16, the format of every piece.
        dtype: its dtype.
        size: number of elements to come.
        histogram: whether to count elements per binade; for 32 and 64 bits only.
    """

    def __init__(
        self, fmt: Format, dtype: np.dtype[Any], size: int, *, histogram: bool
    ) -> None:
        room = min(size, PIECE)
        self._dtype = dtype
        self._unsigned = np.dtype(f"u{dtype.itemsize}")
        self._signed = np.dtype(f"i{dtype.itemsize}")
        self._magnitude = self._unsigned.type((1 << (fmt.bits - 1)) - 1)
        self._inf = self._unsigned.type(fmt.max_code + 1)
        self._one = self._unsigned.type(1)
        self._normal = self._unsigned.type(1 << fmt.mantissa_bits)
        self._size = np.empty(room, self._unsigned)
        self._below = np.empty(room, np.bool_)
        self._widen = Widener(fmt, room)
        self._binades = BinadeCounter(dtype, size) if histogram else None
        self._state = _State()

    def add(self, piece: Floats) -> None:
        """Take in one contiguous piece of at most `PIECE` elements."""
        if piece.size == 0:
            return
        self._state.n += piece.size
        signed, bits = piece.view(self._signed), piece.view(self._unsigned)
        # Numbers without a sign bit are the non-negative signed integers and the
        # smaller unsigned ones; both orders follow the magnitude.
        high, low = signed.max(), bits.max()
        ends = []
        if high >= 0:
            ends += [bits.min(), high.view(self._unsigned)]
        if low > self._magnitude:
            nearest = signed.min().view(self._unsigned) & self._magnitude
            ends += [nearest, low & self._magnitude]
        amin, amax = min(ends), max(ends)
        if amax >= self._inf:
            self._add_nonfinite(piece)
            return
        self._extend(high, low, amin, amax)
        self._add_finite(piece, amin, amax)

    def _add_nonfinite(self, piece: Floats) -> None:
        state = self._state
        nan = int(np.count_nonzero(np.isnan(piece)))
        positive = int(np.count_nonzero(piece == np.inf))
        negative = int(np.count_nonzero(piece == -np.inf))
        state.nan += nan
        state.pos_inf += positive
        state.neg_inf += negative
        finite = piece[np.isfinite(piece)]
        if finite.size:
            state.n -= finite.size
            self.add(finite)
        if positive:
            self._reach(math.inf, math.inf)
        if negative:
            self._reach(-math.inf, -math.inf)
        if nan:
            state.low = state.high = math.nan

    def _extend(self, high: Any, low: Any, amin: Any, amax: Any) -> None:  # noqa: ANN401 - numpy integers
        """Take in the signed extremes of a finite piece, given as bits."""
        smallest, largest = self._float(amin), self._float(amax)
        top = self._float(high) if high >= 0 else -smallest
        # Without a negative number the smallest magnitude is the lowest.
        bottom = self._float(low) if low > self._magnitude else smallest
        self._reach(min(bottom, top), top)
        state = self._state
        state.amax = largest if state.amax is None else max(state.amax, largest)

    def _reach(self, low: float, high: float) -> None:
        state = self._state
        if state.low is None or state.high is None:
            state.low, state.high = low, high
        elif not math.isnan(state.low):
            state.low, state.high = min(state.low, low), max(state.high, high)

    def _float(self, bits: Any) -> float:  # noqa: ANN401 - a numpy integer
        return float(bits.view(self._dtype))

    def _add_finite(self, piece: Floats, amin: Any, amax: Any) -> None:  # noqa: ANN401 - numpy integers
        state = self._state
        bits = piece.view(self._unsigned)
        if amax == 0:
            state.zero += piece.size
            return
        if amin < self._normal:
            size = self._size[: piece.size]
            np.bitwise_and(bits, self._magnitude, out=size)
            amin = self._count_small(size, amin)
        least = self._float(amin)
        state.amin = least if state.amin is None else min(state.amin, least)
        if self._binades is not None:
            self._binades.add(bits, least)
        wide = self._widen(piece)
        state.total += float(np.einsum("i->", wide))
        with np.errstate(over="ignore"):
            state.total_sq += float(np.dot(wide, wide))

    def _count_small(self, size: Bits, amin: Any) -> Any:  # noqa: ANN401 - numpy integers
        """Count zeros and subnormals; return the smallest magnitude but zero."""
        zeros = 0
        if amin == 0:
            zeros = size.size - int(np.count_nonzero(size))
            self._state.zero += zeros
        below = self._below[: size.size]
        np.less(size, self._normal, out=below)
        self._state.subnormal += int(np.count_nonzero(below)) - zeros
        if amin == 0:
            # Zero becomes the largest integer, so the minimum is that of the others.
            size -= self._one
            amin = size.min() + self._one
        return amin

    def summary(self) -> Summary:
        """Return what was gathered so far."""
        counted = None if self._binades is None else self._binades.counts()
        fields = {name: getattr(self._state, name) for name in _State.__slots__}
        factor = 2.0**self._widen.exponent
        fields["total"] *= factor
        fields["total_sq"] *= factor * factor
        return Summary(exponents=counted, **fields)
