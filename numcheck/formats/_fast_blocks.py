# SPDX-License-Identifier: Apache-2.0
"""Quantising float32 blocks that share a power of two, without ever dividing by it.

Rounding x / 2**s to the element's spacing and scaling back is rounding x to that
spacing times 2**s, which the addition of `_fast` does in place: only its lowest
exponent, s + emin, changes from block to block. Blocks at the ends of the float32
range or with NaN or Inf are left to the exact method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.formats._scales import scale_exponents

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from numcheck.formats._block_format import BlockFormat
    from numcheck.formats._modes import Modes, ScaleRule

__all__ = ["PIECE", "PowerOfTwoBlocks", "can_share_powers"]

# Elements at once: more than elsewhere, since work per block is spread over them.
PIECE: Final = 1 << 16

_BIAS: Final = 127
_STORED: Final = 23
_SIGN: Final = np.uint32(1 << 31)
_MAGNITUDE: Final = np.uint32((1 << 31) - 1)
_EXPONENT: Final = np.uint32(0xFF << _STORED)


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
        shift = _STORED - element.mantissa_bits
        self._add = np.uint32((shift << _STORED) | (1 << (_STORED - 1)))
        # From 2**(s + emin) to the largest element times 2**s.
        self._to_limit = np.float32(element.max / element.smallest_normal)
        # Exponents s for which every constant, limit and spacing is a normal number,
        # as the fields of the amax exponents they belong to.
        lowest = max(1 - _BIAS - element.emin, fmt.scale.emin)
        highest = min(_BIAS - 2 - shift - element.emax, fmt.scale.emax)
        self._least = np.uint32((lowest + element.emax + _BIAS) << _STORED)
        self._most = np.uint32((highest + element.emax + _BIAS) << _STORED)
        self._down = np.uint32((element.emax - element.emin) << _STORED)
        self._starts = np.arange(0, PIECE, self._block)
        self._buffers(min(size, PIECE))

    def _buffers(self, room: int) -> None:
        self._size = np.empty(room, np.uint32)
        self._constant = np.empty(room, np.uint32)
        self._floor = np.empty(room, np.uint32)

    def __call__(self, x: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Quantise flat blocks `x` into `out`."""
        n, block = x.size, self._block
        if n > self._size.size:  # padded beyond the size of the array
            self._buffers(n)
        source, target = x.view(np.uint32), out.view(np.uint32)
        size, constant, floor = self._size[:n], self._constant[:n], self._floor[:n]
        np.bitwise_and(source, _MAGNITUDE, out=size)
        largest = np.maximum.reduceat(size, self._starts[: n // block])
        lowest, special = self._lowest_exponents(largest)
        np.copyto(floor.reshape(-1, block), lowest[:, None])
        np.bitwise_and(size, _EXPONENT, out=constant)
        np.maximum(constant, floor, out=constant)
        constant += self._add
        sums, c = size.view(np.float32), constant.view(np.float32)
        # Special blocks may overflow on the way; they are replaced below.
        with np.errstate(invalid="ignore", over="ignore"):
            sums += c
            sums -= c
            limit = floor.view(np.float32)
            limit *= self._to_limit
            np.minimum(sums, limit, out=sums)
        np.bitwise_and(source, _SIGN, out=target)
        target |= size
        if special is not None and special.any():
            rows = np.flatnonzero(special)
            with np.errstate(over="ignore"):
                out.reshape(-1, block)[rows] = self._exact(x.reshape(-1, block)[rows])

    def _lowest_exponents(
        self, largest: NDArray[np.uint32]
    ) -> tuple[NDArray[np.uint32], NDArray[np.bool_] | None]:
        """Return the bits of 2**(s + emin) of each block, and which are special."""
        element = self._fmt.element
        if self._rule == "floor":
            field = largest & _EXPONENT
        else:
            finite = np.where(largest < _EXPONENT, largest, np.uint32(0))
            amax = finite.view(np.float32).astype(np.float64)
            s = scale_exponents(amax, element, self._rule)
            biased = np.clip(s + (_BIAS + element.emax), 0, 255).astype(np.uint32)
            field = np.where(largest < _EXPONENT, biased << _STORED, _EXPONENT)
        special = None
        if field.min() < self._least or field.max() > self._most:
            special = ((field < self._least) | (field > self._most)) & (largest > 0)
            np.clip(field, self._least, self._most, out=field)
        field -= self._down
        return field, special
