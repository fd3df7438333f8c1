# SPDX-License-Identifier: Apache-2.0
"""Sums and sums of squares in float64, quickly.

A 16-bit float becomes a float32 with a shift: bfloat16 is its upper half, and the
bits of a float16, with the sign in front and the others moved down by 3 from there,
are those of a float32 that is 2**112 times smaller. The sums take that factor back at
the end, which is far cheaper than converting every number. Two neighbours lie in one
32-bit number, so each shift serves two.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format
    from numcheck.measure._scratch import Scratch

__all__ = ["Sums", "sum_of_squares"]

# Arrays, which ufuncs take faster than scalars.
_HALF: Final = np.array(16, np.int32)
_UPPER: Final = np.array(-1 << 16, np.int32)
_FLOAT16_SHIFT: Final = np.array(3, np.int32)
# The sign, which the signed shift has copied below itself, and the 15 other bits.
_FLOAT16_KEPT: Final = np.array(0x8FFF_E000, np.uint32).view(np.int32)
# Longer products wake a thread for every processor, which a training step needs.
_ROW: Final = 8192
# Few sums of pieces below this cannot leave the range of float64, nor can the elements
# of any array times 2**-_DOWN.
_NEAR_THE_END: Final = 2.0**960
_DOWN: Final = 64


def sum_of_squares(wide: NDArray[np.float64]) -> float:
    """Return the sum of squares of float64 numbers, on one thread.

    Example:
        >>> sum_of_squares(np.array([3.0, 4.0]))
        25.0
    """
    whole = wide.size // _ROW * _ROW
    rows, rest = wide[:whole].reshape(-1, _ROW), wide[whole:]
    with np.errstate(over="ignore"):
        total = float(np.add.reduce(np.vecdot(rows, rows)))
        return total + float(np.vecdot(rest, rest)) if rest.size else total


class Sums:
    """The sum of finite numbers and that of their squares.

    Args:
        fmt: format of the numbers: float64, float32, float16 or bfloat16.
        room: largest number of elements of a piece.
        scratch: where to work.

    Example:
        >>> from numcheck.formats import get
        >>> from numcheck.measure._scratch import Scratch
        >>> sums = Sums(get("float16"), 3, Scratch(100))
        >>> sums.add(np.array([1.5, -2.0, 0.5], np.float16))
        >>> sums.totals()
        (0.0, 6.5)
    """

    def __init__(self, fmt: Format, room: int, scratch: Scratch) -> None:
        self._name = fmt.name
        self._factor = 2.0**112 if fmt.name == "float16" else 1.0
        self._wide = scratch.take(0 if fmt.name == "float64" else room, np.float64)
        self._bits = scratch.take(room if fmt.bits == 16 else 0, np.int32)
        self._total = self._total_sq = 0.0
        self._beyond = 0.0  # of the pieces with a huge sum, times 2**-_DOWN

    def add(self, piece: NDArray[Any]) -> None:
        """Add a contiguous piece."""
        if self._bits.size and piece.size % 2:
            self._add_one(float(piece[-1]))
            piece = piece[:-1]
        wide = self._widened(piece)
        part = float(np.einsum("i->", wide))
        if abs(part) <= _NEAR_THE_END:
            self._total += part
        else:  # it, or a sum on the way to it, left the range; or NaN, of both signs
            self._beyond += float(np.ldexp(wide, -_DOWN).sum())
        self._total_sq += sum_of_squares(wide)

    def _add_one(self, value: float) -> None:
        self._total += value / self._factor
        self._total_sq += (value / self._factor) ** 2

    def totals(self) -> tuple[float, float]:
        """Return the sum and the sum of squares, Inf beyond the range of float64."""
        factor, total = self._factor, self._total
        if self._beyond:
            with np.errstate(over="ignore"):
                total = float(np.ldexp(self._beyond + math.ldexp(total, -_DOWN), _DOWN))
        return total * factor, self._total_sq * (factor * factor)

    def _widened(self, piece: NDArray[Any]) -> NDArray[np.float64]:
        """Return the piece divided by the factor, until the next call."""
        if self._name == "float64":
            return piece
        wide = self._wide[: piece.size]
        if self._bits.size == 0:
            np.copyto(wide, piece)
            return wide
        bits, pairs = self._bits[: piece.size], piece.view(np.int32)
        lower, upper = bits[: pairs.size], bits[pairs.size :]
        np.left_shift(pairs, _HALF, out=lower)
        if self._name == "float16":
            np.right_shift(lower, _FLOAT16_SHIFT, out=lower)
            np.right_shift(pairs, _FLOAT16_SHIFT, out=upper)
            np.bitwise_and(bits, _FLOAT16_KEPT, out=bits)
        else:
            np.bitwise_and(pairs, _UPPER, out=upper)
        np.copyto(wide, bits.view(np.float32))
        return wide
