# SPDX-License-Identifier: Apache-2.0
"""The pass over float32 and float64 arrays behind `summarize`."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.formats._arrays import CHUNK
from numcheck.measure.summary import Summary

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FloatPass"]


class FloatPass:
    """Counts and extremes, gathered piece by piece.

    A piece costs three reductions when it is finite, free of zeros and subnormals;
    only a piece that holds one of those is looked at again to count them.

    Args:
        dtype: float32 or float64, the dtype of every piece.
        subnormal_below: smallest normal number of the dtype the pieces came from.
        histogram: whether to count elements per binade.
    """

    def __init__(
        self, dtype: np.dtype[Any], subnormal_below: float, *, histogram: bool
    ) -> None:
        layout = np.finfo(dtype)
        self._unsigned = np.dtype(f"u{dtype.itemsize}")
        self._stored = self._unsigned.type(layout.nmant)
        self._magnitude_bits = self._unsigned.type((1 << (layout.bits - 1)) - 1)
        self._bias = 1 - int(layout.minexp)
        self._subnormal_below = subnormal_below
        self._dtype = dtype
        self._bits = np.empty(CHUNK, self._unsigned)
        self._wide = np.empty(CHUNK, np.float64)
        self._index = np.empty(CHUNK if histogram else 0, np.intp)
        self._bins = np.zeros(1 << (layout.bits - 1 - layout.nmant), np.int64)
        self._histogram = histogram
        self._state = _State()
        self._low_subnormals: dict[int, int] = {}

    def add(self, piece: NDArray[np.floating[Any]]) -> None:
        """Take in one contiguous piece of at most `CHUNK` elements."""
        if piece.size == 0:
            return
        state = self._state
        low, high = float(piece.min()), float(piece.max())
        state.n += piece.size
        state.low = _reduce(state.low, low, min)
        state.high = _reduce(state.high, high, max)
        if math.isfinite(low) and math.isfinite(high):
            self._add_finite(piece, max(abs(low), abs(high)))
        else:
            self._add_mixed(piece)

    def _add_mixed(self, piece: NDArray[np.floating[Any]]) -> None:
        state = self._state
        nan = int(np.count_nonzero(np.isnan(piece)))
        positive = int(np.count_nonzero(piece == np.inf))
        finite = piece[np.isfinite(piece)]
        state.nan += nan
        state.pos_inf += positive
        state.neg_inf += piece.size - finite.size - nan - positive
        if finite.size:
            self._add_finite(finite, float(np.abs(finite).max()))

    def _add_finite(self, piece: NDArray[np.floating[Any]], amax: float) -> None:
        state = self._state
        state.amax = amax if state.amax is None else max(state.amax, amax)
        bits = self._bits[: piece.size]
        np.bitwise_and(piece.view(self._unsigned), self._magnitude_bits, out=bits)
        if self._histogram:
            self._count_binades(bits)
        # Zero wraps round to the largest integer, so the minimum skips it.
        one = self._unsigned.type(1)
        smallest = bits - one
        least = smallest.min()
        if least < self._magnitude_bits:
            amin = float((least + one).view(self._dtype))
            state.amin = amin if state.amin is None else min(state.amin, amin)
            self._count_small(bits, piece, amin)
        else:
            state.zero += piece.size
        wide = self._wide[: piece.size]
        np.copyto(wide, piece)
        state.total += float(wide.sum())
        with np.errstate(over="ignore"):
            state.total_sq += float(np.dot(wide, wide))

    def _count_small(
        self, bits: NDArray[Any], piece: NDArray[np.floating[Any]], amin: float
    ) -> None:
        state = self._state
        zeros = piece.size - int(np.count_nonzero(bits))
        state.zero += zeros
        if amin < self._subnormal_below:
            small = np.count_nonzero(np.abs(piece) < self._subnormal_below)
            state.subnormal += int(small) - zeros

    def _count_binades(self, bits: NDArray[Any]) -> None:
        index = self._index[: bits.size]
        np.right_shift(bits, self._stored, out=index, casting="unsafe")
        counts = np.bincount(index, minlength=self._bins.size)
        self._bins += counts
        if counts[0]:
            self._count_low_binades(bits)

    def _count_low_binades(self, bits: NDArray[Any]) -> None:
        low = bits[(bits > 0) & (bits >> self._stored == 0)]
        exponents = np.frexp(low.view(self._dtype))[1] - 1
        for exponent, count in zip(
            *np.unique(exponents, return_counts=True), strict=True
        ):
            key = int(exponent)
            self._low_subnormals[key] = self._low_subnormals.get(key, 0) + int(count)

    def _exponents(self) -> dict[int, int]:
        found = dict(self._low_subnormals)
        for field in np.flatnonzero(self._bins[1:]) + 1:
            found[int(field) - self._bias] = int(self._bins[field])
        return dict(sorted(found.items()))

    def summary(self) -> Summary:
        """Return what was gathered so far."""
        exponents = self._exponents() if self._histogram else None
        return Summary(exponents=exponents, **dataclasses.asdict(self._state))


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


def _reduce(
    before: float | None,
    now: float,
    pick: Any,  # noqa: ANN401 - min or max
) -> float:
    if before is None or math.isnan(now):
        return now
    return before if math.isnan(before) else float(pick(before, now))
