# SPDX-License-Identifier: Apache-2.0
"""Counting elements per binade, two at a time.

Counting is one read, one addition and one write per element, which no vector unit
helps with. So the exponent fields of two neighbouring float32 are packed into one
16-bit number, and the pairs are counted: half the work, folded at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PIECE", "BinadeCounter"]

# Elements at once: reductions spread their fixed cost over more of them.
PIECE: Final = 1 << 16

# Below this many elements, folding 65536 pairs costs more than pairing saves.
_MIN_PAIRED: Final = 1 << 18
_FIELDS: Final = np.uint64(0x7F80_0000_7F80_0000)
# The lower field moves up by 24 bits, to end right below the upper one.
_BESIDE: Final = np.uint64((1 << 24) + 1)
_DOWN: Final = np.uint64(47)


class BinadeCounter:
    """Counts finite numbers per binade.

    Args:
        dtype: float32 or float64, whose bits come.
        size: number of elements to come.
    """

    def __init__(self, dtype: np.dtype[Any], size: int) -> None:
        layout = np.finfo(dtype)
        self._dtype = dtype
        self._stored = np.dtype(f"u{dtype.itemsize}").type(layout.nmant)
        self._magnitude = self._stored.dtype.type((1 << (layout.bits - 1)) - 1)
        self._bias = 1 - int(layout.minexp)
        self._bins = np.zeros(1 << layout.iexp, np.int64)
        self._low: dict[int, int] = {}
        paired = dtype == np.float32 and size >= _MIN_PAIRED
        self._pairs = np.zeros(1 << 16 if paired else 0, np.int64)
        room = min(size, PIECE)
        self._packed = np.empty(room // 2 if paired else 0, np.uint64)
        self._smallest_normal = float(layout.smallest_normal)

    def add(self, bits: NDArray[np.unsignedinteger[Any]], smallest: float) -> None:
        """Count finite numbers, given as bits; zeros are left out.

        Args:
            bits: the bits of the numbers.
            smallest: the smallest magnitude that is not zero.
        """
        rest = bits
        if self._pairs.size:
            paired = bits.size // 2 * 2
            self._add_pairs(bits[:paired])
            rest = bits[paired:]
        if rest.size:
            fields = ((rest & self._magnitude) >> self._stored).astype(np.intp)
            self._bins += np.bincount(fields, minlength=self._bins.size)
        if smallest < self._smallest_normal:
            self._add_low(bits & self._magnitude)

    def _add_pairs(self, bits: NDArray[Any]) -> None:
        packed = self._packed[: bits.size // 2]
        np.bitwise_and(bits.view(np.uint64), _FIELDS, out=packed)
        packed *= _BESIDE
        packed >>= _DOWN
        np.add.at(self._pairs, packed.view(np.int64), 1)

    def _add_low(self, size: NDArray[Any]) -> None:
        """Subnormals share a field and are told apart here."""
        implicit = size.dtype.type(1) << self._stored
        low = size[(size > 0) & (size < implicit)].view(self._dtype)
        exponents, counts = np.unique(np.frexp(low)[1] - 1, return_counts=True)
        for exponent, count in zip(exponents, counts, strict=True):
            self._low[int(exponent)] = self._low.get(int(exponent), 0) + int(count)

    def counts(self) -> dict[int, int]:
        """Return the number of elements by floor(log2(|x|)), lowest first."""
        bins = self._bins.copy()
        if self._pairs.size:
            square = self._pairs.reshape(256, 256)
            bins += square.sum(axis=0) + square.sum(axis=1)
        found = dict(self._low)
        for field in np.flatnonzero(bins[1:]) + 1:
            found[int(field) - self._bias] = int(bins[field])
        return dict(sorted(found.items()))
