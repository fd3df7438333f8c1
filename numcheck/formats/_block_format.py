# SPDX-License-Identifier: Apache-2.0
"""`BlockFormat`: elements that share a scale."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from numcheck.formats._format import Format

__all__ = ["BlockFormat", "Extent"]

Extent = Literal["tensor", "channel"]


@dataclasses.dataclass(frozen=True, slots=True)
class BlockFormat:
    """A format whose elements are multiplied by a scale they share.

    Attributes:
        name: canonical name, such as ``mxfp4_e2m1``.
        element: format of one element.
        scale: format of the shared scale.
        block: number of elements along one axis; or (rows, columns) of a tile of the
            last two axes; or ``tensor`` or ``channel`` for one scale in all, or one
            for every index of an axis.
        tensor_scale: format of a second scale for the whole tensor, or None.
        micro_exponents: how many blocks of one-bit exponents each level below the
            scale has, the coarser level first; HiF4 alone has them.

    Example:
        >>> from numcheck.formats import lookup
        >>> lookup("mxfp4").bits_per_value, lookup("nvfp4").block_size
        (4.25, 16)
    """

    name: str
    element: Format
    scale: Format
    block: int | tuple[int, int] | Extent
    tensor_scale: Format | None = None
    micro_exponents: tuple[int, ...] = ()

    @property
    def block_size(self) -> int | None:
        """Number of elements that share a scale; None where the array decides."""
        if isinstance(self.block, tuple):
            return self.block[0] * self.block[1]
        return None if isinstance(self.block, str) else self.block

    @property
    def tile(self) -> tuple[int, int] | None:
        """Rows and columns of a block; None where the array decides."""
        if isinstance(self.block, int):
            return 1, self.block
        return self.block if isinstance(self.block, tuple) else None

    @property
    def element_bits(self) -> int:
        """Width of one element in bits."""
        return self.element.bits

    @property
    def element_max(self) -> float:
        """Largest element, in units of the scale."""
        return self.element.max * 2.0 ** len(self.micro_exponents)

    @property
    def element_emax(self) -> int:
        """Exponent of the largest element."""
        return self.element.emax

    @property
    def element_smallest(self) -> float:
        """Smallest non-zero element, in units of the scale."""
        return self.element.smallest_subnormal

    @property
    def bits_per_value(self) -> float:
        """Stored bits per element, the block's scale included, in whole bytes."""
        if self.block_size is None:
            return float(self.element_bits)
        shared = 8 * math.ceil(self.scale.bits / 8) + sum(self.micro_exponents)
        return self.element_bits + shared / self.block_size

    @property
    def max_block_ratio(self) -> float:
        """Largest over smallest non-zero magnitude that one block can hold."""
        return self.element_max / self.element_smallest

    @property
    def max_block_ratio_octaves(self) -> float:
        """`max_block_ratio` as log2."""
        return math.log2(self.max_block_ratio)

    @property
    def flush_ratio_octaves(self) -> tuple[int, int]:
        """Octaves below a block's largest element where zeros begin.

        From the first number on, some elements become zero; from the second on, all
        do. The two differ by where in its binade the largest element lies.
        """
        lowest = math.frexp(self.element_smallest)[1] - 1
        first = self.element_emax - lowest + 1
        return first, first + 1

    @property
    def tensor_block_amax_ratio(self) -> float | None:
        """Largest over smallest block maximum that the second scale leaves room for."""
        if self.tensor_scale is None:
            return None
        return self.scale.max / self.scale.smallest_normal

    def __str__(self) -> str:
        """Return the canonical name."""
        return self.name
