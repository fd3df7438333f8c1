# SPDX-License-Identifier: Apache-2.0
"""How far an array stays from the limits of a format, in bits."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal

from numcheck.errors import ArgumentTypeError
from numcheck.formats._arrays import as_array, format_of
from numcheck.formats._registry import get
from numcheck.measure._summarize import summarize
from numcheck.measure.summary import Summary

if TYPE_CHECKING:
    from numcheck.formats._format import Format

__all__ = ["MarginStatus", "Margins", "headroom", "margins"]

MarginStatus = Literal["ok", "zero", "nonfinite", "unmeasured"]
# Magnitude, largest number and overflow threshold on its side, whether it overflows.
_End = tuple[float, float, float, bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Margins:
    """Distances from a format's limits, in bits (octaves of log2).

    All are +inf for an array of zeros or without elements (status ``zero``), and None
    when nothing is finite (``nonfinite``) or the extremes were not measured
    (``unmeasured``). NaN and Inf elements are left out of the extremes.

    Attributes:
        format: the format they are held against.
        status: ``ok``, ``zero``, ``nonfinite`` or ``unmeasured``.
        headroom: log2(max / amax); negative when the largest element is clipped. Of
            integers, whose limits differ by sign, the smaller of the two sides'.
        overflow_margin: log2(T / amax) with T the round-to-nearest overflow threshold.
        overflows: whether the largest element leaves the range when rounded; differs
            from the margin's sign only at the threshold itself.
        underflow_margin: log2(amin / smallest_normal); negative when bits are lost.
        flush_margin: log2(amin / (smallest_subnormal / 2)), or with subnormals flushed
            log2(amin / smallest_normal).
        flushes: whether the smallest non-zero element becomes zero.
        dynamic_range: log2(amax) - log2(amin), of the array itself.
    """

    format: Format
    status: MarginStatus
    headroom: float | None
    overflow_margin: float | None
    overflows: bool | None
    underflow_margin: float | None
    flush_margin: float | None
    flushes: bool | None
    dynamic_range: float | None


def headroom(x: object, fmt: object = None) -> float | None:
    """Return log2(max / amax): how many doublings are left before `fmt` clips.

    Args:
        x: an array, or the `Summary` of one.
        fmt: the format to hold it against; by default the array's own.

    Returns:
        Bits; negative when the largest finite element is already above `max`; +inf
        for zeros or no elements; None when nothing is finite or `amax` was not
        measured.

    Raises:
        ArgumentTypeError: `x` holds no numbers, or `fmt` is missing and unknown.
        UnknownFormatError: no scalar format has that name.

    Example:
        >>> import numpy as np
        >>> headroom(np.float32(32752.0), "fp16"), headroom(np.zeros(3), "fp16")
        (1.0, inf)
    """
    return margins(x, fmt).headroom


def margins(
    x: object, fmt: object = None, *, flush_subnormals: bool = False
) -> Margins:
    """Return all distances between an array's extremes and a format's limits.

    Args:
        x: an array, or the `Summary` of one.
        fmt: the format to hold it against; by default the array's own.
        flush_subnormals: whether subnormal results become zero (FTZ).

    Returns:
        `Margins` in bits: +inf for zeros or no elements, None when nothing is finite.

    Raises:
        ArgumentTypeError: `x` holds no numbers, or `fmt` is missing and unknown.
        UnknownFormatError: no scalar format has that name.

    Example:
        >>> import numpy as np
        >>> m = margins(np.array([65520.0, 2.0**-25], np.float32), "float16")
        >>> m.overflow_margin, m.overflows, m.flush_margin, m.flushes
        (0.0, True, 0.0, True)
    """
    summary, target = _measured(x, fmt)
    amax, amin = summary.amax, summary.amin
    status = _status(summary)
    if status != "ok" or amax is None:
        far = math.inf if status == "zero" else None
        none = False if status == "zero" else None
        nothing = 0.0 if status == "zero" else None
        return Margins(target, status, far, far, none, far, far, none, nothing)
    ends = _ends(summary, target) or [
        (amax, target.max, target.overflow_threshold, target.overflows(amax))
    ]
    return Margins(
        target,
        status,
        headroom=min(_octaves(limit, size) for size, limit, _, _ in ends),
        overflow_margin=min(_octaves(where, size) for size, _, where, _ in ends),
        overflows=any(leaves for *_, leaves in ends),
        underflow_margin=_log2_ratio(amin, target.smallest_normal),
        flush_margin=_log2_ratio(amin, _flush_limit(target, ftz=flush_subnormals)),
        flushes=_flushes(amin, target, ftz=flush_subnormals),
        dynamic_range=_log2_ratio(amax, amin),
    )


def _measured(x: object, fmt: object) -> tuple[Summary, Format]:
    if isinstance(x, Summary):
        if fmt is None:
            raise ArgumentTypeError(
                "fmt is needed: a Summary does not say which format it came from"
            )
        return x, get(fmt)
    target = None if fmt is None else get(fmt)
    array = as_array(x, "x")
    target = target or format_of(array)
    if target is None:
        raise ArgumentTypeError(f"dtype {array.dtype} has no known format; pass fmt")
    return summarize(array), target


def _status(summary: Summary) -> MarginStatus:
    if summary.n == 0 or summary.amax == 0:
        return "zero"
    if summary.amax is not None:
        return "ok"
    return "nonfinite" if summary.finite == 0 else "unmeasured"


def _ends(summary: Summary, fmt: Format) -> list[_End]:
    """Return the ends of an array against those of a format whose limits differ.

    Integers reach one step further below zero than above. Empty for other formats,
    and where NaN or Inf hide which of the two ends is the larger.
    """
    low, high = summary.low, summary.high
    if fmt.kind != "integer" or low is None or high is None:
        return []
    if not (math.isfinite(low) and math.isfinite(high)):
        return []
    ends: list[_End] = []
    if high > 0:
        ends.append((high, fmt.max, fmt.overflow_threshold, fmt.overflows(high)))
    if low < 0:
        # A tie at the lower limit goes to it, for it is even.
        threshold = fmt.eps / 2 - fmt.min
        ends.append((-low, -fmt.min, threshold, -low > threshold))
    return ends


def _octaves(limit: float, size: float) -> float:
    if limit == 0:
        return -math.inf
    found = _log2_ratio(limit, size)
    return math.inf if found is None else found


def _log2_ratio(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return None
    if math.isinf(a) or b == 0:
        return math.inf
    quotient = a / b if b >= 1 or a < 1 else 0.0
    if 0 < quotient < math.inf:
        return math.log2(quotient)
    return math.log2(a) - math.log2(b)


def _flush_limit(fmt: Format, *, ftz: bool) -> float:
    return fmt.smallest_normal if ftz else fmt.underflow_threshold


def _flushes(amin: float | None, fmt: Format, *, ftz: bool) -> bool | None:
    if amin is None:
        return None
    limit = _flush_limit(fmt, ftz=ftz)
    if ftz or not fmt.underflow_inclusive:
        return amin < limit
    return amin <= limit
