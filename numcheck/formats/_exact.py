# SPDX-License-Identifier: Apache-2.0
"""Rounding that is exact for every floating-point format and every mode.

Each magnitude a is divided by the format's spacing at a, a power of two, so that
rounding becomes rounding to an integer: r = a / quantum < 2**precision. Dividing by a
power of two is exact here, because the spacing never exceeds one below `emin` and r
never exceeds a normal number above it. All arithmetic stays in the array's own
float32 or float64, so nothing is rounded twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format, Rounding
    from numcheck.formats._modes import Modes

    Floats = NDArray[np.floating[Any]]

__all__ = ["finish", "round_exactly", "spacing", "to_integer"]


def round_exactly(
    x: Floats, fmt: Format, modes: Modes, rng: np.random.Generator | None = None
) -> Floats:
    """Return `x` rounded to `fmt`, a floating-point format, in the dtype of `x`.

    Args:
        x: float32 or float64, which must hold every value of the format.
        fmt: a format of kind ``float``.
        modes: rounding, overflow and subnormal mode.
        rng: source of random numbers, for stochastic rounding.

    Example:
        >>> from numcheck.formats import get
        >>> from numcheck.formats._modes import Modes
        >>> x = np.array([0.3, 500.0])
        >>> round_exactly(x, get("e4m3"), Modes("toward_zero")).tolist()
        [0.28125, 448.0]
    """
    magnitude = np.abs(x)
    negative = np.signbit(x)
    quantum = spacing(magnitude, fmt)
    with np.errstate(invalid="ignore", over="ignore"):
        # NaN and Inf give NaN here, and the largest numbers may overflow when rounded
        # up; `finish` treats both by looking at the magnitude.
        whole = to_integer(magnitude / quantum, modes.rounding, negative, rng)
        rounded = whole * quantum
    return finish(x, rounded, fmt, modes)


def spacing(magnitude: Floats, fmt: Format) -> Floats:
    """Return the distance between neighbours of the format at each magnitude.

    Example:
        >>> from numcheck.formats import get
        >>> spacing(np.array([1.0, 3.0]), get("e4m3"))
        array([0.125, 0.25 ])
    """
    layout = np.finfo(magnitude.dtype)
    unsigned = np.dtype(f"u{magnitude.dtype.itemsize}")
    exponent_mask = unsigned.type(((1 << layout.iexp) - 1) << layout.nmant)
    power = (magnitude.view(unsigned) & exponent_mask).view(magnitude.dtype)
    lowest = magnitude.dtype.type(fmt.smallest_normal)
    scale = magnitude.dtype.type(2.0**-fmt.mantissa_bits)
    return np.asarray(np.maximum(power, lowest) * scale)


def to_integer(
    r: Floats,
    rounding: Rounding,
    negative: NDArray[np.bool_],
    rng: np.random.Generator | None,
) -> Floats:
    """Return non-negative magnitudes `r` rounded to integers.

    Example:
        >>> r = np.array([0.5, 1.5, 2.25])
        >>> to_integer(r, "up", np.array([False, True, False]), None)
        array([1., 1., 3.])
    """
    if rounding == "nearest_even":
        return np.asarray(np.rint(r))
    below = np.floor(r)
    rest = r - below
    if rounding == "toward_zero":
        return np.asarray(below)
    if rounding == "nearest_away":
        step = rest >= 0.5
    elif rounding == "up":
        step = (rest > 0) & ~negative
    elif rounding == "down":
        step = (rest > 0) & negative
    elif rounding == "to_odd":
        step = (rest > 0) & (np.floor(below / 2) * 2 == below)
    else:
        source = rng or np.random.default_rng()
        # Both generators draw multiples of their unit, so the chance is exact to it.
        step = source.random(r.shape, r.dtype.type) < rest
    return np.asarray(below + step.astype(r.dtype))


def finish(x: Floats, rounded: Floats, fmt: Format, modes: Modes) -> Floats:
    """Return rounded magnitudes with overflow, subnormals, sign and specials settled.

    Args:
        x: the original values.
        rounded: their magnitudes rounded as if the exponent range had no upper end.
        fmt: the target format.
        modes: overflow and subnormal mode, and the rounding that led here.
    """
    largest = x.dtype.type(fmt.max)
    if modes.flush:
        rounded[rounded < fmt.smallest_normal] = 0
    infinite = np.isinf(x)
    over = (rounded > largest) & ~infinite
    if over.any():
        rounded[over] = _overflowed(x[over], fmt, modes)
    if infinite.any():
        rounded[infinite] = _infinity(fmt, modes)
    if fmt.has_neg_zero:
        result = np.copysign(rounded, x)
    else:
        result = np.where(rounded == 0, 0, np.copysign(rounded, x))
    result[np.isnan(x)] = np.nan
    return np.asarray(result, x.dtype)


def _overflowed(x: Floats, fmt: Format, modes: Modes) -> Floats:
    beyond = _beyond(fmt) if modes.overflow == "ieee" else fmt.max
    if modes.rounding in ("toward_zero", "to_odd"):
        return np.full_like(x, fmt.max)
    if modes.rounding == "up":
        return np.where(x > 0, beyond, fmt.max).astype(x.dtype)
    if modes.rounding == "down":
        return np.where(x < 0, beyond, fmt.max).astype(x.dtype)
    return np.full_like(x, beyond)


def _infinity(fmt: Format, modes: Modes) -> float:
    return fmt.max if modes.overflow == "saturate" else _beyond(fmt)


def _beyond(fmt: Format) -> float:
    if fmt.has_inf:
        return float("inf")
    return float("nan") if fmt.has_nan else fmt.max
