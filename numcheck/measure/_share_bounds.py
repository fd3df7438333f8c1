# SPDX-License-Identifier: Apache-2.0
"""What a summary alone says about a format: bounds on every share.

A binade that lies wholly on one side of a limit is counted exactly; one that a limit
divides counts as possible. Being flushed, small or out of range is monotone in the
magnitude, so the ends of a binade decide.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numcheck.errors import ArgumentError
from numcheck.measure._shares import Interval, Shares

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numcheck.formats._format import Format
    from numcheck.measure.summary import Summary

    Group = tuple[float, float, int]

__all__ = ["share_bounds"]


def share_bounds(summary: Summary, fmt: Format, scale_log2: int = 0) -> Shares:
    """Return bounds on what `fmt` would do to the summarised array.

    Args:
        summary: with ``amax`` and ``amin``; its exponent histogram makes the bounds
            tight, without one only the extremes speak.
        fmt: the scalar format.
        scale_log2: the values are multiplied by 2**scale_log2 first.

    Returns:
        Shares of the finite non-zero elements, each between two bounds; 0 without any.

    Raises:
        ArgumentError: the summary holds no extremes.

    Example:
        >>> import numpy as np
        >>> from numcheck.formats import get
        >>> from numcheck.measure import summarize
        >>> s = summarize(np.array([1.0, 65535.0, 2.0**20]), histogram=True)
        >>> overflow = share_bounds(s, get("fp16")).overflow
        >>> round(overflow.low, 3), round(overflow.high, 3)
        (0.333, 0.667)
    """
    groups = _scaled(_groups(summary), scale_log2)
    total = sum(count for _, _, count in groups)
    kept = _rising(groups, lambda v: not _flushes(v, fmt))
    normal = _rising(groups, lambda v: not _is_small(v, fmt))
    flushed = (total - kept[1], total - kept[0])
    below = (total - normal[1], total - normal[0])
    fewest = max(0, below[0] - flushed[1])
    subnormal = (fewest, max(fewest, below[1] - flushed[0]))
    if not fmt.has_subnormals:
        subnormal = (0, 0)

    def share(counts: tuple[int, int]) -> Interval:
        return Interval(counts[0] / max(total, 1), counts[1] / max(total, 1))

    return Shares(
        overflow=share(_outside(summary, groups, fmt, fmt.overflows, fmt.eps / 2)),
        clipped=share(_outside(summary, groups, fmt, lambda v: v > fmt.max, 0.0)),
        flushed=share(flushed),
        subnormal=share(subnormal),
        sqnr_db=_sqnr_bounds(summary, groups, fmt, scale_log2),
    )


def _groups(summary: Summary) -> list[Group]:
    """Return (smallest, largest, count) of each group of magnitudes."""
    if summary.amax is None or summary.amin is None:
        if summary.n == 0 or summary.amax == 0 or summary.finite == 0:
            return []
        raise ArgumentError("the summary holds no extremes; a format cannot be judged")
    if summary.exponents is None:
        count = summary.n if summary.finite is None else summary.finite
        return [(summary.amin, summary.amax, count - (summary.zero or 0))]
    return [
        (
            max(math.ldexp(1.0, e), summary.amin),
            min(math.nextafter(math.ldexp(1.0, e + 1), 0), summary.amax),
            count,
        )
        for e, count in sorted(summary.exponents.items())
        if count
    ]


def _scaled(groups: Sequence[Group], scale_log2: int) -> list[Group]:
    def times(value: float) -> float:
        try:
            return math.ldexp(value, scale_log2)
        except OverflowError:
            return math.inf

    return [(times(low), times(high), count) for low, high, count in groups]


def _rising(groups: Sequence[Group], holds: Callable[[float], bool]) -> tuple[int, int]:
    """Return how many certainly and possibly satisfy what rises with magnitude."""
    certain = sum(count for low, _, count in groups if holds(low))
    possible = sum(count for _, high, count in groups if holds(high))
    return certain, possible


def _outside(
    summary: Summary,
    groups: Sequence[Group],
    fmt: Format,
    above: Callable[[float], bool],
    slack: float,
) -> tuple[int, int]:
    """Return how many certainly and possibly lie beyond a limit of the range.

    The limits of integers differ by sign, which magnitudes do not tell.
    """
    certain, possible = _rising(groups, above)
    if fmt.kind != "integer" or (summary.low is not None and summary.low >= 0):
        return certain, possible
    if not fmt.signed:
        return 0, sum(count for _, _, count in groups)
    return _rising(groups, lambda v: v > slack - fmt.min)[0], possible


def _flushes(magnitude: float, fmt: Format) -> bool:
    if fmt.underflow_inclusive:
        return magnitude <= fmt.underflow_threshold
    return magnitude < fmt.underflow_threshold


def _is_small(magnitude: float, fmt: Format) -> bool:
    """Whether the rounded result lies below the smallest normal number."""
    if fmt.kind == "float":
        return magnitude < fmt.smallest_normal - fmt.smallest_subnormal / 2
    return magnitude < fmt.smallest_normal * 3 / 4


def _sqnr_bounds(
    summary: Summary, groups: Sequence[Group], fmt: Format, scale_log2: int
) -> Interval:
    noise = sum(count * _worst_error(high, fmt) ** 2 for _, high, count in groups)
    signal = summary.total_sq
    one_sided = not fmt.signed and not (summary.low is not None and summary.low >= 0)
    if not signal or not 0 < noise < math.inf or signal == math.inf or one_sided:
        return Interval(-math.inf, math.inf)
    power = math.log10(signal) + 2 * scale_log2 * math.log10(2)
    return Interval(10 * (power - math.log10(noise)), math.inf)


def _worst_error(magnitude: float, fmt: Format) -> float:
    if fmt.overflows(magnitude):
        return magnitude - min(fmt.max, magnitude)
    exponent = math.frexp(magnitude)[1] - 1
    if fmt.kind == "integer":
        return fmt.eps / 2
    # Half a spacing; a tapered format has the fewest bits at its ends.
    bits = 0 if fmt.kind == "tapered" else fmt.mantissa_bits
    return math.ldexp(0.5, max(exponent, fmt.emin) - bits)
