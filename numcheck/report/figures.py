# SPDX-License-Identifier: Apache-2.0
"""How numbers are written in every report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.measure.summary import Summary

__all__ = [
    "amax_text",
    "binades",
    "bits_text",
    "compact",
    "count_text",
    "format_max",
    "headroom_bits",
    "infinities_text",
    "told_headroom",
]

# Exponents of the smallest subnormal and of the largest float64.
_LOWEST: Final = -1074
_HIGHEST: Final = 1023


def compact(value: float) -> str:
    """Return a number in at most four significant digits.

    Example:
        >>> compact(30720.0), compact(0.25), compact(float("-inf")), compact(7)
        ('3.072e+04', '0.25', '-Inf', '7')
    """
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    whole = value.is_integer() and abs(value) < 1e4
    return str(int(value)) if whole else f"{value:.4g}"


def headroom_bits(summary: Summary | None, dtype: str) -> float | None:
    """Return log2(largest finite number of the format / amax), in bits.

    Returns:
        +Inf when nothing but zeros is held, -Inf when an element is infinite; None
        when it was not measured, nothing is finite, or `dtype` is no floating format.

    Example:
        >>> from numcheck.measure.summary import Summary
        >>> headroom_bits(Summary(n=1, amax=32752.0), "float16")
        1.0
    """
    largest = format_max(dtype)
    if summary is None or largest is None:
        return None
    if summary.has_inf:
        return -math.inf
    if summary.amax is None or not summary.amax >= 0:
        return None
    if summary.amax == 0:
        return math.inf
    # The quotient of a large maximum and a tiny amax would itself overflow.
    return math.log2(largest) - math.log2(summary.amax)


def told_headroom(summary: Summary, dtype: str, rule: str) -> float | None:
    """Return a fact's headroom; None where its Inf was not made by an overflow.

    A logarithm of zero or a division by it is infinite in every format: how often the
    value could have doubled says nothing.

    Args:
        summary: of the fact.
        dtype: of the fact.
        rule: id of what broke.

    Example:
        >>> from numcheck.measure.summary import Summary
        >>> log_of_zero = Summary(n=2, amax=1.0, low=-math.inf, high=1.0)
        >>> told_headroom(log_of_zero, "float32", "N301")
        >>> told_headroom(log_of_zero, "float32", "N101")
        -inf
    """
    bits = headroom_bits(summary, dtype)
    is_domain = rule.startswith(("N0", "N3"))
    return None if is_domain and bits == -math.inf else bits


def format_max(dtype: str) -> float | None:
    """Return the largest finite number of a floating format; None for all others."""
    from numcheck.errors import UnknownFormatError
    from numcheck.formats import get

    try:
        known = get(dtype)
    except UnknownFormatError:
        return None
    return None if known.kind == "integer" else known.max


def bits_text(bits: float | None) -> str:
    """Return signed bits with one decimal; a dash when unknown.

    Example:
        >>> bits_text(1.06), bits_text(-0.31), bits_text(float("inf")), bits_text(None)
        ('+1.1', '−0.3', '∞', '–')
    """
    if bits is None or math.isnan(bits):
        return "–"
    if math.isinf(bits):
        return "∞" if bits > 0 else "<0"
    return f"{bits:+.1f}".replace("-", "−")


def amax_text(summary: Summary) -> str:
    """Return the largest finite magnitude, marked as a bound beside an Inf."""
    if summary.amax is None:
        return "–"
    return ("≥" if summary.has_inf else "") + f"{summary.amax:.2e}"


def count_text(count: int | None, *, present: bool | None) -> str:
    """Return a count; where only the presence was measured, a bound; else a dash.

    Example:
        >>> count_text(12000, present=True), count_text(None, present=True)
        ('12,000', '≥1')
    """
    if count is not None:
        return f"{count:,}"
    return "–" if present is None else "≥1" if present else "0"


def infinities_text(summary: Summary) -> str:
    """Return how many elements are infinite, of either sign; see `count_text`."""
    positive, negative = summary.pos_inf, summary.neg_inf
    counted = None if positive is None or negative is None else positive + negative
    return count_text(counted, present=summary.has_inf)


def binades(exponents: Mapping[int, int]) -> tuple[int, list[int]]:
    """Return the lowest exponent and the counts from it upwards, without gaps.

    Exponents that no float64 has are left out: a damaged record may hold any.

    Example:
        >>> binades({-2: 5, 1: 7, 10**9: 1})
        (-2, [5, 0, 0, 7])
    """
    known = {e: n for e, n in exponents.items() if _LOWEST <= e <= _HIGHEST and n >= 0}
    if not known:
        return 0, []
    low, high = min(known), max(known)
    return low, [known.get(e, 0) for e in range(low, high + 1)]
