# SPDX-License-Identifier: Apache-2.0
"""What a format does to an array, as shares of its elements."""

from __future__ import annotations

import dataclasses
import math

__all__ = ["Counts", "Interval", "Shares"]


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


@dataclasses.dataclass(slots=True)
class Counts:
    """What was counted of finite elements.

    Attributes:
        nonzero: elements that are not zero.
        overflow: as in `Shares`, as are the next three.
        clipped: see there.
        flushed: see there.
        subnormal: see there.
        signal: sum of squares of the elements.
        noise: sum of squares of what rounding took from them.
    """

    nonzero: int = 0
    overflow: int = 0
    clipped: int = 0
    flushed: int = 0
    subnormal: int = 0
    signal: float = 0.0
    noise: float = 0.0

    def shares(self) -> Shares:
        """Return the counts as shares of the elements that are not zero.

        Example:
            >>> Counts(nonzero=4, overflow=1).shares().overflow.low
            0.25
        """
        total = max(self.nonzero, 1)

        def share(count: int) -> Interval:
            return Interval(count / total, count / total)

        return Shares(
            overflow=share(self.overflow),
            clipped=share(self.clipped),
            flushed=share(self.flushed),
            subnormal=share(self.subnormal),
            sqnr_db=self._sqnr_db(),
        )

    def _sqnr_db(self) -> Interval:
        if self.noise == 0:
            return Interval(math.inf, math.inf)
        if not 0 < self.signal < math.inf or self.noise == math.inf:
            return Interval(-math.inf, math.inf)
        ratio = 10 * math.log10(self.signal / self.noise)
        return Interval(ratio, ratio)
