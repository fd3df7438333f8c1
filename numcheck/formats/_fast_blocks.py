# SPDX-License-Identifier: Apache-2.0
"""Quantising float32 blocks that share a power of two, without ever dividing by it.

Rounding x / 2**s to the element's spacing and scaling back is rounding x to that
spacing times 2**s, which `_fast` does by a division, `rint` and a multiplication:
only its lowest exponent, s + emin, changes from block to block. Blocks at the ends of
the float32 range or with NaN or Inf are left to the exact method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.formats._arrays import PIECE
from numcheck.formats._scales import scale_exponents

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from numcheck.formats._block_format import BlockFormat
    from numcheck.formats._modes import Modes, ScaleRule

__all__ = ["PowerOfTwoBlocks", "can_share_powers"]

_BIAS: Final = 127
_STORED: Final = 23
_MAGNITUDE: Final = np.uint32((1 << 31) - 1)
_EXPONENT: Final = np.uint32(0xFF << _STORED)
_NONE: Final = np.empty(0, np.intp)


def can_share_powers(fmt: BlockFormat, modes: Modes, rule: ScaleRule | None) -> bool:
    """Whether `PowerOfTwoBlocks` serves.

    Example:
        >>> from numcheck.formats import lookup
        >>> from numcheck.formats._modes import Modes
        >>> can_share_powers(lookup("mxfp4"), Modes(), None)
        True
        >>> can_share_powers(lookup("nvfp4"), Modes(), None)
        False
    """
    power_of_two = fmt.scale.kind == "scale" or (
        rule is not None and fmt.scale.name == "float32"
    )
    return (
        power_of_two
        and fmt.element.kind == "float"
        and not fmt.micro_exponents
        and modes.rounding == "nearest_even"
        and not modes.flush
        and isinstance(fmt.block, (int, tuple))
        and (fmt.block_size or PIECE) <= PIECE
    )


class PowerOfTwoBlocks:
    """Quantises whole blocks of float32, up to `PIECE` elements at once.

    Args:
        fmt: a block format for which `can_share_powers` holds.
        rule: how the power of two is chosen.
        size: number of elements to come, padding left out.
        exact: quantises blocks given as (blocks, elements), exactly.
    """

    def __init__(
        self,
        fmt: BlockFormat,
        rule: ScaleRule | None,
        size: int,
        exact: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> None:
        self._fmt, self._rule, self._exact = fmt, rule or "floor", exact
        self._block = fmt.block_size or 1
        element = fmt.element
        self._down = np.uint32(element.mantissa_bits << _STORED)
        # From 2**(s + emin) to the largest element times 2**s.
        self._to_limit = np.float32(element.max / element.smallest_normal)
        # Exponents s for which every spacing and limit is a normal number, as the
        # fields of the amax exponents they belong to.
        lowest = 1 - _BIAS - element.emin + element.mantissa_bits
        lowest = max(lowest, fmt.scale.emin)
        highest = min(_BIAS - element.emax, fmt.scale.emax)
        self._least = np.uint32((lowest + element.emax + _BIAS) << _STORED)
        self._most = np.uint32((highest + element.emax + _BIAS) << _STORED)
        self._to_lowest = np.uint32((element.emax - element.emin) << _STORED)
        self._starts = np.arange(0, PIECE, self._block)
        self._room = np.empty((2, min(size, PIECE)), np.uint32)

    def __call__(self, x: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Quantise flat blocks `x` into `out`, which shares no memory with it."""
        n, block = x.size, self._block
        if n > self._room.shape[1]:  # padded beyond the size of the array
            self._room = np.empty((2, n), np.uint32)
        field, floor = self._room[:, :n]
        shared = self._shared_exponents(x.view(np.uint32), field)
        special = self._special(shared, x)
        np.subtract(shared, self._to_lowest, out=shared)
        np.copyto(floor.reshape(-1, block), shared[:, None])
        np.maximum(field, floor, out=field)
        np.subtract(field, self._down, out=field)
        spacing, limit = field.view(np.float32), floor.view(np.float32)
        # Special blocks may overflow on the way; they are replaced below.
        with np.errstate(all="ignore"):
            np.divide(x, spacing, out=out)
            np.rint(out, out=out)
            np.multiply(out, spacing, out=out)
            np.multiply(limit, self._to_limit, out=limit)
            np.minimum(out, limit, out=out)
            np.negative(limit, out=limit)
            np.maximum(out, limit, out=out)
            if not self._fmt.element.has_neg_zero:
                np.add(out, 0.0, out=out)
            if special.size:
                rows = out.reshape(-1, block)
                rows[special] = self._exact(x.reshape(-1, block)[special])

    def _shared_exponents(
        self, bits: NDArray[np.uint32], field: NDArray[np.uint32]
    ) -> NDArray[np.uint32]:
        """Return the exponent field of amax that each block's scale stands for.

        Leaves the exponent field of every element in `field`.
        """
        starts = self._starts[: bits.size // self._block]
        if self._rule == "floor":
            np.bitwise_and(bits, _EXPONENT, out=field)
            shared: NDArray[np.uint32] = np.maximum.reduceat(field, starts)
            return shared
        np.bitwise_and(bits, _MAGNITUDE, out=field)
        largest = np.maximum.reduceat(field, starts)
        np.bitwise_and(field, _EXPONENT, out=field)
        return self._chosen_exponents(largest)

    def _special(
        self, shared: NDArray[np.uint32], x: NDArray[np.float32]
    ) -> NDArray[np.intp]:
        """Return the blocks that only the exact method can do, in range from now on."""
        least, most = np.minimum.reduce(shared), np.maximum.reduce(shared)
        if least >= self._least and most <= self._most:
            return _NONE
        outside = np.flatnonzero((shared < self._least) | (shared > self._most))
        np.clip(shared, self._least, self._most, out=shared)
        # Blocks of zeros, which may be many, stay what they are.
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return outside[x.reshape(-1, self._block)[outside].any(axis=1)]

    def _chosen_exponents(self, largest: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the exponent field that the rule makes of the bits of amax."""
        element = self._fmt.element
        finite = np.where(largest < _EXPONENT, largest, np.uint32(0))
        amax = finite.view(np.float32).astype(np.float64)
        s = scale_exponents(amax, element, self._rule)
        biased = np.clip(s + (_BIAS + element.emax), 0, 255).astype(np.uint32)
        return np.where(largest < _EXPONENT, biased << _STORED, _EXPONENT)
