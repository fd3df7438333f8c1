# SPDX-License-Identifier: Apache-2.0
"""Rounding to integers and fixed point: one spacing, two's complement limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.formats._exact import to_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format
    from numcheck.formats._modes import Modes

    Floats = NDArray[np.floating[Any]]

__all__ = ["FixedRounder", "can_fix", "round_to_fixed"]


def round_to_fixed(
    x: NDArray[np.floating[Any]],
    fmt: Format,
    modes: Modes,
    rng: np.random.Generator | None = None,
) -> NDArray[np.floating[Any]]:
    """Return `x` rounded to a format of kind ``integer``, in the dtype of `x`.

    Inf becomes the nearest limit and NaN becomes zero, in every mode. Overflow gives
    the limit, or with ``wrap`` the low bits of the two's complement number.

    Example:
        >>> from numcheck.formats import get
        >>> from numcheck.formats._modes import Modes
        >>> round_to_fixed(np.array([1.3, 200.0]), get("q8.8"), Modes())
        array([  1.30078125, 127.99609375])
    """
    finite = np.where(np.isfinite(x), x, 0)
    steps = np.ldexp(np.abs(finite), fmt.fraction_bits)
    negative = np.signbit(finite)
    # Beyond 2**nmant every float is a whole number already.
    whole = to_integer(steps, modes.rounding, negative, rng)
    whole = np.where(negative, -whole, whole)
    lowest = np.ldexp(fmt.min, fmt.fraction_bits)
    span = 2.0**fmt.bits
    if modes.overflow == "wrap":
        whole = np.mod(whole - lowest, span) + lowest
    else:
        whole = np.clip(whole, lowest, _largest(fmt, x.dtype))
    whole = np.where(x == np.inf, _largest(fmt, x.dtype), whole)
    whole = np.where(x == -np.inf, lowest, whole)
    return np.asarray(np.ldexp(whole + 0.0, -fmt.fraction_bits), x.dtype)


def _largest(fmt: Format, dtype: np.dtype[Any]) -> float:
    """Return the largest whole number of steps that `dtype` can hold exactly."""
    exact = (1 << (fmt.bits - fmt.sign_bits)) - 1
    nearest = dtype.type(exact)
    return float(nearest if int(nearest) <= exact else np.nextafter(nearest, 0))


def can_fix(fmt: Format, dtype: np.dtype[Any]) -> bool:
    """Whether `FixedRounder` serves: `dtype` holds every number of steps.

    Example:
        >>> from numcheck.formats import get
        >>> (
        ...     can_fix(get("q8.8"), np.dtype("f4")),
        ...     can_fix(get("int32"), np.dtype("f4")),
        ... )
        (True, False)
    """
    precision = int(np.finfo(dtype).nmant) + 1
    return (
        fmt.kind == "integer"
        and fmt.bits <= precision
        and abs(fmt.fraction_bits) < precision
    )


class FixedRounder:
    """Rounds contiguous pieces to nearest-even in an integer or fixed-point format.

    Args:
        fmt: a format for which `can_fix` holds; what leaves its range saturates.
    """

    def __init__(self, fmt: Format) -> None:
        self._steps = 2.0**fmt.fraction_bits
        self._limits = fmt.min * self._steps, fmt.max * self._steps

    def __call__(self, x: Floats, out: Floats) -> None:
        """Round `x` into `out`."""
        with np.errstate(all="ignore"):
            np.multiply(x, self._steps, out=out)
            np.rint(out, out=out)
            out.clip(*self._limits, out=out)
            np.multiply(out, 1 / self._steps, out=out)
        # There is no -0, and NaN becomes zero.
        np.add(out, 0.0, out=out)
        if out.size and np.isnan(np.maximum.reduce(out)):
            out[np.isnan(out)] = 0
