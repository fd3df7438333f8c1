# SPDX-License-Identifier: Apache-2.0
"""Widening floats to float64 for their sums, quickly.

A 16-bit float becomes a float32 with a shift: bfloat16 is its upper half, and the
bits of a float16, moved up by 13 with the sign kept, are those of a float32 that is
2**112 times smaller. The sums take that factor back at the end, which is far cheaper
than converting every number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format

__all__ = ["Widener"]

_FLOAT16_SHIFT: Final = 13
# The sign, which the signed shift has copied below itself, and the 15 other bits.
_FLOAT16_KEPT: Final = np.int32(np.uint32(0x8FFF_E000).view(np.int32))


class Widener:
    """Turns contiguous pieces of finite numbers into float64, up to a power of two.

    Args:
        fmt: format of the pieces: float64, float32, float16 or bfloat16.
        room: largest number of elements of a piece.

    Attributes:
        exponent: the numbers returned are the piece's times 2**-exponent.

    Example:
        >>> from numcheck.formats import get
        >>> widen = Widener(get("float16"), 2)
        >>> (widen(np.array([1.5, -2.0], np.float16)) * 2.0**widen.exponent).tolist()
        [1.5, -2.0]
    """

    def __init__(self, fmt: Format, room: int) -> None:
        self._name = fmt.name
        self.exponent = 112 if fmt.name == "float16" else 0
        self._wide = np.empty(room, np.float64)
        self._bits = np.empty(room if fmt.bits == 16 else 0, np.int32)

    def __call__(self, piece: NDArray[Any]) -> NDArray[np.float64]:
        """Return the piece in a buffer that the next call overwrites."""
        wide = self._wide[: piece.size]
        if self._bits.size == 0:
            np.copyto(wide, piece)
            return wide
        bits = self._bits[: piece.size]
        np.copyto(bits, piece.view(np.int16))
        if self._name == "float16":
            np.left_shift(bits, np.int32(_FLOAT16_SHIFT), out=bits)
            np.bitwise_and(bits, _FLOAT16_KEPT, out=bits)
        else:
            np.left_shift(bits, np.int32(16), out=bits)
        np.copyto(wide, bits.view(np.float32))
        return wide
