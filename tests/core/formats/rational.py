# SPDX-License-Identifier: Apache-2.0
"""Decoding and rounding written a second time, with fractions and nothing shared.

Slow, obvious and independent: a format is the list of its values in order, and
rounding is a search in that list.
"""

from __future__ import annotations

import bisect
import functools
import math
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numcheck.formats import Format


def value_of(code: int, fmt: Format) -> Fraction | float:
    """Returns what a code of a floating-point format means; specials as floats."""
    stored = fmt.precision - 1
    negative = code >> (fmt.bits - 1)
    magnitude = code & ((1 << (fmt.bits - 1)) - 1)
    all_ones = (1 << (fmt.bits - 1)) - 1
    field, trailing = magnitude >> stored, magnitude & ((1 << stored) - 1)
    if fmt.specials in ("fnuz", "extended") and negative and magnitude == 0:
        return math.nan
    if fmt.specials == "fn" and magnitude == all_ones:
        return math.nan
    if fmt.specials == "ieee" and field == all_ones >> stored:
        return math.nan if trailing else (-math.inf if negative else math.inf)
    if fmt.specials == "extended" and magnitude == all_ones:
        return -math.inf if negative else math.inf
    fraction = Fraction(trailing, 1 << stored)
    if field:
        size = (1 + fraction) * Fraction(2) ** (field - fmt.bias)
    else:
        size = fraction * Fraction(2) ** (1 - fmt.bias)
    return -size if negative else size


@functools.cache
def magnitudes(fmt: Format) -> list[Fraction]:
    """Returns the finite magnitudes in order; the place of each is its code."""
    values = (value_of(code, fmt) for code in range(1 << (fmt.bits - 1)))
    return [v for v in values if isinstance(v, Fraction)]


def rounded(x: float, fmt: Format, mode: str, overflow: str) -> float:
    """Returns `x` rounded to a floating-point format of any mode but stochastic."""
    values = magnitudes(fmt)
    last = len(values) - 1
    beyond = math.inf if fmt.has_inf else math.nan if fmt.has_nan else values[last]
    if overflow == "saturate":
        beyond = values[last]
    if math.isnan(x):
        return x
    if math.isinf(x):
        return math.copysign(float(beyond), x)
    place, rises = _neighbour(abs(Fraction(x)), values, mode, negative=x < 0)
    size = values[place] if not rises else beyond
    if rises and place < last:
        size = values[place + 1]
    if size == 0 and not fmt.has_neg_zero:
        return 0.0
    return math.copysign(float(size), x)


def _neighbour(
    exact: Fraction, values: list[Fraction], mode: str, *, negative: bool
) -> tuple[int, bool]:
    """Returns the place of the value at or below, and whether to take the next."""
    place = bisect.bisect_right(values, exact) - 1
    if values[place] == exact:
        return place, False
    is_last = place == len(values) - 1
    if mode in ("up", "down"):
        return place, (mode == "up") != negative
    if mode in ("toward_zero", "to_odd"):
        return place, mode == "to_odd" and place % 2 == 0 and not is_last
    # Beyond the last value, the next is where the pattern would continue.
    step = values[-1] - values[-2] if is_last else values[place + 1] - values[place]
    middle = values[place] + step / 2
    if exact == middle:
        return place, mode == "nearest_away" or place % 2 == 1
    return place, exact > middle
