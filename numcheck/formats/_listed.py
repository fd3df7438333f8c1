# SPDX-License-Identifier: Apache-2.0
"""Rounding to formats that are given by their values: tapered ones and bare scales."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.formats._codes import code_values
from numcheck.formats._exact import finish

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format
    from numcheck.formats._modes import Modes

__all__ = ["round_to_listed"]


def round_to_listed(
    x: NDArray[np.floating[Any]],
    fmt: Format,
    modes: Modes,
    rng: np.random.Generator | None = None,
) -> NDArray[np.floating[Any]]:
    """Return `x` rounded to a format of kind ``tapered`` or ``scale``.

    A scale has neither sign nor zero: negative numbers become NaN, and so does zero,
    except that saturating modes give its smallest value. What lies below the smallest
    scale becomes the smallest.

    Example:
        >>> from numcheck.formats import get
        >>> from numcheck.formats._modes import Modes
        >>> round_to_listed(np.array([3.0, 40960.0]), get("hif8"), Modes())
        array([3.0000e+00, 3.2768e+04])
    """
    values, even = _ladder(fmt)
    with np.errstate(invalid="ignore"):  # a signalling NaN, quietened by the cast
        magnitude = np.abs(x).astype(np.float64)
    top = len(values) - 1
    place = np.searchsorted(values, magnitude, side="right") - 1
    low = np.clip(place, 0, top - 1)
    rise = _steps(magnitude, low, values, even, modes, np.signbit(x), rng)
    rise &= magnitude > values[0]
    rounded = values[np.where(place < 0, 0, low + rise)]
    rounded = np.where(magnitude >= values[top], values[top], rounded)
    with np.errstate(over="ignore"):  # 2**128 of a float32 scale, out of range anyway
        narrowed = rounded.astype(x.dtype)
    settled = finish(x, narrowed, fmt, modes)
    if fmt.kind == "scale":
        return _without_sign_and_zero(x, settled, fmt, modes)
    return settled


def _steps(
    magnitude: NDArray[np.float64],
    low: NDArray[np.intp],
    values: NDArray[np.float64],
    even: NDArray[np.bool_],
    modes: Modes,
    negative: NDArray[np.bool_],
    rng: np.random.Generator | None,
) -> NDArray[np.bool_]:
    """Return which magnitudes go to the upper of their two neighbours."""
    floor, ceiling = values[low], values[low + 1]
    inexact = magnitude > floor
    if modes.rounding == "stochastic":
        source = rng or np.random.default_rng()
        share = (magnitude - floor) / (ceiling - floor)
        return np.asarray(source.random(low.shape) < share)
    if modes.rounding == "nearest_even":
        middle = (floor + ceiling) / 2
        tie_rises = even[low + 1] & ~even[low]
        return np.asarray((magnitude > middle) | ((magnitude == middle) & tie_rises))
    if modes.rounding == "nearest_away":
        # The casts to float8_e8m0fnu of all frameworks round up whatever lies between
        # its two smallest values; being like them is worth more than being regular.
        lowest_binade = inexact & (low == 0) & (values[0] > 0)
        return np.asarray((magnitude >= (floor + ceiling) / 2) | lowest_binade)
    leaving = {
        "toward_zero": np.zeros(low.shape, np.bool_),
        "up": ~negative,
        "down": negative,
        "to_odd": even[low],
    }
    return np.asarray(inexact & leaving[modes.rounding])


@functools.lru_cache(maxsize=16)
def _ladder(fmt: Format) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the non-negative values, one step beyond the largest, and evenness.

    The added step is where the next value would be; what lands on it has overflowed.
    """
    values = code_values(fmt)
    codes = np.flatnonzero(np.isfinite(values) & ~np.signbit(values))
    codes = codes[np.argsort(values[codes])]
    step = 2 * (fmt.overflow_threshold - fmt.max)
    ladder = np.append(values[codes], fmt.max + step)
    return ladder, np.append(codes % 2 == 0, (fmt.max_code + 1) % 2 == 0)


def _without_sign_and_zero(
    x: NDArray[np.floating[Any]],
    rounded: NDArray[np.floating[Any]],
    fmt: Format,
    modes: Modes,
) -> NDArray[np.floating[Any]]:
    at_zero = fmt.smallest_normal if modes.overflow != "ieee" else np.nan
    result = np.where(x == 0, at_zero, rounded)
    return np.asarray(np.where(x < 0, np.nan, result), x.dtype)
