# SPDX-License-Identifier: Apache-2.0
"""What a format does to values that come piece by piece, counted exactly."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.formats._arrays import CHUNK
from numcheck.formats._modes import Modes
from numcheck.formats._rounders import rounder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format

__all__ = ["Interval", "Shares", "Tally"]


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """A number known to lie between two bounds; exact when they agree.

    Example:
        >>> Interval(0.25, 0.25).is_exact
        True
    """

    low: float
    high: float

    @property
    def is_exact(self) -> bool:
        """Whether both bounds agree."""
        return self.low == self.high


@dataclasses.dataclass(frozen=True, slots=True)
class Shares:
    """What a format does to an array, as shares of its finite non-zero elements.

    Attributes:
        overflow: rounded result leaves the range.
        clipped: magnitude above the largest number; some of those still round to it.
        flushed: becomes zero, other than a negative number in an unsigned format.
        subnormal: becomes a subnormal number, with fewer bits.
        sqnr_db: 10·log10(Σx² / Σ(x - q)²) in decibels, what overflows taken as the
            largest number; +inf when nothing is lost.
    """

    overflow: Interval
    clipped: Interval
    flushed: Interval
    subnormal: Interval
    sqnr_db: Interval

    @property
    def is_exact(self) -> bool:
        """Whether every share is known exactly."""
        return all(
            share.is_exact
            for share in (self.overflow, self.clipped, self.flushed, self.subnormal)
        )


class Tally:
    """Counts what a format does to finite values.

    Args:
        fmt: the scalar format.
        scale_log2: the values are multiplied by 2**scale_log2 first.

    Example:
        >>> from numcheck.formats import get
        >>> tally = Tally(get("fp16"))
        >>> tally.add(np.array([1.0, 70000.0, 1e-9, 0.0]))
        >>> tally.shares().overflow.low == tally.shares().flushed.low == 1 / 3
        True
    """

    def __init__(self, fmt: Format, scale_log2: int = 0) -> None:
        self._format = fmt
        self._scale_log2 = scale_log2
        modes = Modes(fmt.native_rounding, "saturate")
        self._convert = rounder(np.dtype(np.float64), fmt, modes, CHUNK)
        self._nonzero = self._overflow = self._clipped = 0
        self._flushed = self._subnormal = 0
        self._signal = self._noise = 0.0

    def add(
        self, values: NDArray[np.float64], weights: NDArray[np.int64] | None = None
    ) -> None:
        """Count up to `CHUNK` finite values, each `weights` times."""
        fmt = self._format
        with np.errstate(over="ignore"):
            x = np.ldexp(values, self._scale_log2)
        q = np.empty_like(x)
        self._convert(x, q)
        size, result = np.abs(x), np.abs(q)
        nonzero = size > 0
        self._nonzero += _weigh(nonzero, weights)
        over = _overflows(x, size, fmt)
        self._overflow += _weigh(over, weights)
        self._clipped += _weigh((x > fmt.max) | (x < fmt.min), weights)
        self._flushed += _weigh(nonzero & (result == 0) & ~over, weights)
        if fmt.has_subnormals:
            small = (result > 0) & (result < fmt.smallest_normal)
            self._subnormal += _weigh(small, weights)
        with np.errstate(over="ignore"):
            self._signal += _total(np.square(x), weights)
            self._noise += _total(np.square(x - q), weights)

    def shares(self) -> Shares:
        """Return what was counted so far."""
        total = max(self._nonzero, 1)

        def share(count: int) -> Interval:
            return Interval(count / total, count / total)

        return Shares(
            overflow=share(self._overflow),
            clipped=share(self._clipped),
            flushed=share(self._flushed),
            subnormal=share(self._subnormal),
            sqnr_db=self._sqnr_db(),
        )

    def _sqnr_db(self) -> Interval:
        if self._noise == 0:
            return Interval(math.inf, math.inf)
        if not 0 < self._signal < math.inf or self._noise == math.inf:
            return Interval(-math.inf, math.inf)
        ratio = 10 * math.log10(self._signal / self._noise)
        return Interval(ratio, ratio)


def _overflows(x: Any, size: Any, fmt: Format) -> Any:  # noqa: ANN401 - float arrays
    if fmt.kind == "integer":
        half = fmt.eps / 2
        return (x >= fmt.max + half) | (x < fmt.min - half)
    if fmt.overflow_threshold_inclusive:
        return size >= fmt.overflow_threshold
    return size > fmt.overflow_threshold


def _weigh(chosen: NDArray[np.bool_], weights: NDArray[np.int64] | None) -> int:
    if weights is None:
        return int(np.count_nonzero(chosen))
    return int(weights[chosen].sum())


def _total(power: NDArray[np.float64], weights: NDArray[np.int64] | None) -> float:
    return float(power.sum() if weights is None else (power * weights).sum())
