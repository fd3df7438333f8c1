# SPDX-License-Identifier: Apache-2.0
"""Lengths and angles of two vectors and of their difference, at any magnitude.

Squares leave the range of float64 from 2**512 on and vanish below 2**-537. Vectors
that come near are multiplied by a power of two first, each by its own, which is exact
and cancels in every ratio.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Norms", "scale_for"]

# Exponents of a largest magnitude whose squares, and sums of them, are safe.
_SAFE: Final = 400


def scale_for(largest: float) -> int:
    """Return the exponent of a power of two that makes squares of numbers safe.

    Example:
        >>> scale_for(1.5), scale_for(2.0**700), scale_for(math.inf)
        (0, -701, -1025)
    """
    if largest == 0:
        return 0
    exponent = 1025 if math.isinf(largest) else math.frexp(largest)[1]
    return -exponent if abs(exponent) > _SAFE else 0


class Norms:
    """Sums of squares and products, gathered piece by piece.

    Args:
        scales: exponents of the powers of two by which the reference, the other
            vector and their difference are multiplied.

    Example:
        >>> norms = Norms()
        >>> norms.add(np.array([3.0, 4.0]), np.array([3.0, 4.5]))
        >>> norms.rel_l2(), round(norms.sqnr_db(), 6)
        (0.1, 20.0)
    """

    def __init__(self, scales: tuple[int, int, int] = (0, 0, 0)) -> None:
        self._scales = scales
        self._aa = self._bb = self._ab = self._dd = 0.0

    def add(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> None:
        """Take in a piece of each, finite."""
        with np.errstate(over="ignore"):
            difference = a - b
            if any(self._scales):
                of_a, of_b, of_both = self._scales
                # Down before the difference leaves the range, up only what is small:
                # equal elements may be as large as they like.
                if of_both < 0:
                    difference = np.ldexp(a, of_both) - np.ldexp(b, of_both)
                else:
                    difference = np.ldexp(difference, of_both)
                a, b = np.ldexp(a, of_a), np.ldexp(b, of_b)
            self._aa += float(np.dot(a, a))
            self._bb += float(np.dot(b, b))
            self._ab += float(np.dot(a, b))
            self._dd += float(np.dot(difference, difference))

    def rel_l2(self) -> float:
        """Return ‖a - b‖ / ‖a‖: 0 when they are equal, Inf for a zero reference."""
        if self._dd == 0:
            return 0.0
        if self._aa == 0:
            return math.inf
        ratio = math.sqrt(self._dd / self._aa)
        try:
            return math.ldexp(ratio, self._octaves())
        except OverflowError:
            return math.inf

    def sqnr_db(self) -> float:
        """Return 10·log10(Σa² / Σ(a - b)²): Inf when they are equal."""
        if self._dd == 0:
            return math.inf
        if self._aa == 0:
            return -math.inf
        ratio = math.log10(self._aa / self._dd)
        return 10 * (ratio - 2 * self._octaves() * math.log10(2))

    def cosine(self) -> float | None:
        """Return the cosine of the angle between them; None when either is zero."""
        lengths = math.sqrt(self._aa) * math.sqrt(self._bb)
        if not lengths > 0:
            return None
        # Rounding may carry the quotient of parallel vectors past one.
        return max(-1.0, min(1.0, self._ab / lengths))

    def _octaves(self) -> int:
        """Return how much larger ‖a - b‖ / ‖a‖ is than the scaled sums say."""
        return self._scales[0] - self._scales[2]
