# SPDX-License-Identifier: Apache-2.0
"""Counting what a format does to values that come piece by piece, exactly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.formats._arrays import CHUNK
from numcheck.formats._codes import value_dtype
from numcheck.formats._modes import Modes
from numcheck.formats._rounders import rounder
from numcheck.measure._shares import Counts
from numcheck.measure._sums import sum_of_squares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format
    from numcheck.measure._shares import Shares
    from numcheck.measure.summary import Summary

    Floats = NDArray[np.floating[Any]]

__all__ = ["ElementTally", "Room", "WeightedTally", "can_tally"]

# Formats of more bits have thresholds that float32 cannot hold.
_PRECISION: Final = 20


class WeightedTally:
    """Counts values, each as often as its weight says.

    Args:
        fmt: the scalar format.
        scale_log2: the values are multiplied by 2**scale_log2 first.

    Example:
        >>> from numcheck.formats import get
        >>> tally = WeightedTally(get("fp16"))
        >>> tally.add(np.array([1.0, 70000.0, 1e-9, 0.0]), np.array([1, 1, 1, 5]))
        >>> tally.shares().overflow.low == tally.shares().flushed.low == 1 / 3
        True
    """

    def __init__(self, fmt: Format, scale_log2: int = 0) -> None:
        self._format = fmt
        self._scale_log2 = scale_log2
        self._convert = rounder(np.dtype(np.float64), fmt, _modes(fmt), CHUNK)
        self._counts = Counts()

    def add(self, values: NDArray[np.float64], weights: NDArray[np.int64]) -> None:
        """Count up to `CHUNK` finite values."""
        fmt, counts = self._format, self._counts
        with np.errstate(over="ignore"):
            x = np.ldexp(values, self._scale_log2)
        q = np.empty_like(x)
        self._convert(x, q)
        size, result = np.abs(x), np.abs(q)
        nonzero = size > 0
        over = _overflows(x, size, fmt)
        counts.nonzero += int(weights[nonzero].sum())
        counts.overflow += int(weights[over].sum())
        counts.clipped += int(weights[(x > fmt.max) | (x < fmt.min)].sum())
        counts.flushed += int(weights[nonzero & (result == 0) & ~over].sum())
        if fmt.has_subnormals:
            small = (result > 0) & (result < fmt.smallest_normal)
            counts.subnormal += int(weights[small].sum())
        with np.errstate(over="ignore"):
            counts.signal += float((np.square(x) * weights).sum())
            counts.noise += float((np.square(x - q) * weights).sum())

    def shares(self) -> Shares:
        """Return what was counted so far."""
        return self._counts.shares()


def can_tally(
    summary: Summary, dtype: np.dtype[Any], fmt: Format, scale_log2: int
) -> bool:
    """Whether `ElementTally` may work in `dtype`: nothing it does may be inexact.

    Example:
        >>> from numcheck.formats import get
        >>> from numcheck.measure import summarize
        >>> found = summarize(np.array([1.0, 1e-30], np.float32))
        >>> [can_tally(found, np.dtype("f4"), get("fp16"), s) for s in (0, -90)]
        [True, False]
    """
    if dtype == np.float64:
        return True
    limits = np.finfo(dtype)
    # As exponents: what leaves float32 may leave float64 too.
    least = math.frexp(summary.amin or 1.0)[1] + scale_log2
    most = math.frexp(summary.amax or 1.0)[1] + scale_log2
    return (
        fmt.precision <= _PRECISION
        and value_dtype(fmt) == dtype
        and (scale_log2 == 0 or least > int(limits.minexp))
        and most <= int(limits.maxexp)
    )


class Room:
    """Buffers in which tallies work, one after the other.

    Args:
        dtype: float32 or float64.
        size: largest number of elements of a piece.
    """

    def __init__(self, dtype: np.dtype[Any], size: int) -> None:
        self.dtype, self.unsigned = dtype, np.dtype(f"u{dtype.itemsize}")
        self.scaled, self.rounded, self.size = np.empty((3, size), dtype)
        self.wide = np.empty(size, np.float64)


class ElementTally:
    """Counts the finite elements of an array.

    Args:
        fmt: the scalar format.
        scale_log2: the elements are multiplied by 2**scale_log2 first.
        room: where to work, and in which dtype.
        size: number of elements to come.

    Example:
        >>> from numcheck.formats import get
        >>> tally = ElementTally(get("fp16"), 0, Room(np.dtype(np.float64), 4), 4)
        >>> tally.add(np.array([1.0, 70000.0, 1e-9, 0.0]))
        >>> tally.shares().overflow.low == tally.shares().flushed.low == 1 / 3
        True
    """

    def __init__(self, fmt: Format, scale_log2: int, room: Room, size: int) -> None:
        self._format, self._scale_log2, self._room = fmt, scale_log2, room
        self._convert = rounder(room.dtype, fmt, _modes(fmt), size)
        self._counts = Counts()

    def add(self, values: Floats) -> None:
        """Count a contiguous piece of finite elements, in the dtype of the room."""
        fmt, counts, room, n = self._format, self._counts, self._room, values.size
        if n == 0:
            return
        x, size, q = self._moved(values), room.size[:n], room.rounded[:n]
        np.abs(x, out=size)
        self._convert(x, q)
        bits = size.view(room.unsigned)
        nonzero = int(np.count_nonzero(bits))
        counts.nonzero += nonzero
        lost = 0
        may_clip = np.maximum.reduce(size) > min(fmt.max, -fmt.min)
        if may_clip:
            over = _overflows(x, size, fmt)
            lost = int(np.count_nonzero(over & (q == 0)))
            counts.overflow += int(np.count_nonzero(over))
            counts.clipped += int(np.count_nonzero((x > fmt.max) | (x < fmt.min)))
        np.abs(q, out=size)
        kept = int(np.count_nonzero(bits))
        if fmt.has_zero:
            counts.flushed += nonzero - kept - lost
        if fmt.has_subnormals:
            small = int(np.count_nonzero(size < fmt.smallest_normal))
            counts.subnormal += small - (n - kept)
        wide = room.wide[:n]
        np.copyto(wide, x)
        counts.signal += sum_of_squares(wide)
        # What rounding takes is a number of the same dtype; what clipping takes not.
        if may_clip:
            np.subtract(x, q, out=wide, dtype=np.float64)
        else:
            np.subtract(x, q, out=q)
            np.copyto(wide, q)
        counts.noise += sum_of_squares(wide)

    def _moved(self, values: Floats) -> Floats:
        """Return the values times the scale."""
        scale, smallest = self._scale_log2, int(np.finfo(self._room.dtype).minexp)
        if scale == 0:
            return values
        x: Floats = self._room.scaled[: values.size]
        with np.errstate(all="ignore"):
            # Multiplying is much faster, and the same, where the factor is normal.
            if smallest <= scale <= -smallest:
                np.multiply(values, 2.0**scale, out=x)
            else:
                np.ldexp(values, scale, out=x)
        return x

    def shares(self) -> Shares:
        """Return what was counted so far."""
        return self._counts.shares()


def _modes(fmt: Format) -> Modes:
    return Modes(fmt.native_rounding, "saturate")


def _overflows(x: Floats, size: Floats, fmt: Format) -> NDArray[np.bool_]:
    if fmt.kind == "integer":
        half = fmt.eps / 2
        return np.asarray((x >= fmt.max + half) | (x < fmt.min - half))
    if fmt.overflow_threshold_inclusive:
        return np.asarray(size >= fmt.overflow_threshold)
    return np.asarray(size > fmt.overflow_threshold)
