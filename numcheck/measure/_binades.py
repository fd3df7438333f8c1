# SPDX-License-Identifier: Apache-2.0
"""Counting elements per binade, several at a time.

Counting is one read, one addition and one write per element, which no vector unit
helps with. So the exponent fields of three float32 are packed into one number where
they lie within 32 of one another, as those of weights and activations mostly do, and
of two where not; those numbers are counted, and the counts folded at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.measure._scratch import Scratch

    Bits = NDArray[np.unsignedinteger[Any]]

__all__ = ["BinadeCounter"]

# Below this many elements, folding the packed counts costs more than packing saves.
_MIN_PACKED: Final = 1 << 18
_STORED: Final = 23
_EXPONENT: Final = np.uint32(0xFF << _STORED)


class BinadeCounter:
    """Counts finite numbers per binade.

    Args:
        dtype: float32 or float64, whose bits come.
        size: number of elements to come.
        room: largest number of elements of a piece.
        scratch: where to work.
    """

    def __init__(
        self, dtype: np.dtype[Any], size: int, room: int, scratch: Scratch
    ) -> None:
        layout = np.finfo(dtype)
        self._dtype = dtype
        self._unsigned = np.dtype(f"u{dtype.itemsize}")
        self._stored = int(layout.nmant)
        self._magnitude = self._unsigned.type((1 << (layout.bits - 1)) - 1)
        self._bias = 1 - int(layout.minexp)
        self._bins = np.zeros(1 << layout.iexp, np.int64)
        self._low: dict[int, int] = {}
        self._packed: tuple[_Packed, ...] = ()
        if dtype == np.float32 and size >= _MIN_PACKED:
            half = room // 2
            room_for = [scratch.take(half, t) for t in (np.uint32, np.uint32, np.int64)]
            self._packed = (_Packed(3, 5, *room_for), _Packed(2, 8, *room_for))

    def add(self, bits: Bits, least: int, most: int, *, zeros: bool) -> None:
        """Count finite numbers, given as bits; zeros are left out.

        Args:
            bits: the bits of the numbers.
            least: the smallest magnitude that is not zero, as bits.
            most: the largest magnitude, as bits.
            zeros: whether there are zeros.
        """
        fields = 0 if zeros else least >> self._stored, most >> self._stored
        done = 0
        for packed in self._packed:
            if packed.can_hold(*fields):
                done = packed.add(bits, *fields)
                break
        if done < bits.size:
            rest = (bits[done:] & self._magnitude) >> self._unsigned.type(self._stored)
            self._bins += np.bincount(rest.astype(np.intp), minlength=self._bins.size)
        if least < 1 << self._stored:
            self._add_low(bits & self._magnitude)

    def _add_low(self, size: Bits) -> None:
        """Subnormals share a field and are told apart here."""
        implicit = self._unsigned.type(1 << self._stored)
        low = size[(size > 0) & (size < implicit)].view(self._dtype)
        exponents, counts = np.unique(np.frexp(low)[1] - 1, return_counts=True)
        for exponent, count in zip(exponents, counts, strict=True):
            self._low[int(exponent)] = self._low.get(int(exponent), 0) + int(count)

    def counts(self) -> dict[int, int]:
        """Return the number of elements by floor(log2(|x|)), lowest first."""
        bins = self._bins + sum(packed.fields() for packed in self._packed)
        found = dict(self._low)
        for field in np.flatnonzero(bins[1:]) + 1:
            found[int(field) - self._bias] = int(bins[field])
        return dict(sorted(found.items()))


class _Packed:
    """Counts of exponent fields of float32, packed together.

    Args:
        together: how many fields one number holds.
        width: bits that each takes, less the first field of a window.
        total: where the numbers are put together.
        field: where one field of each is.
        index: the numbers, to count them.
    """

    def __init__(
        self,
        together: int,
        width: int,
        total: NDArray[np.uint32],
        field: NDArray[np.uint32],
        index: NDArray[np.int64],
    ) -> None:
        self._together, self._width = together, width
        self._first = 0
        self._counts = np.zeros(1 << (together * width), np.int64)
        self._fields = np.zeros(256, np.int64)
        self._total, self._field, self._index = total, field, index

    def can_hold(self, lowest: int, highest: int) -> bool:
        """Whether a window spans these fields."""
        return highest - lowest < 1 << self._width

    def add(self, bits: Bits, lowest: int, highest: int) -> int:
        """Count fields between two, both held; return the number of elements done."""
        if lowest < self._first or highest >= self._first + (1 << self._width):
            self._fields = self.fields()
            self._counts[:] = 0
            spare = (1 << self._width) - 1 - (highest - lowest)
            self._first = max(0, lowest - spare // 2)
        part, width = bits.size // self._together, self._width
        total, field = self._total[:part], self._field[:part]
        np.bitwise_and(bits[:part], _EXPONENT, out=total)
        for place in range(1, self._together):
            fields = bits[place * part : (place + 1) * part]
            np.bitwise_and(fields, _EXPONENT, out=field)
            np.right_shift(field, np.uint32(place * width), out=field)
            np.add(total, field, out=total)
        lowest_bit = _STORED - (self._together - 1) * width
        np.right_shift(total, np.uint32(lowest_bit), out=total)
        unit = sum(1 << (place * width) for place in range(self._together))
        np.subtract(total, np.uint32(self._first * unit), out=total)
        index = self._index[:part]
        np.copyto(index, total)
        np.add.at(self._counts, index, 1)
        return part * self._together

    def fields(self) -> NDArray[np.int64]:
        """Return the number of elements by field."""
        found = self._fields.copy()
        length = min(1 << self._width, found.size - self._first)
        cube = self._counts.reshape((1 << self._width,) * self._together)
        for axis in range(self._together):
            others = tuple(a for a in range(self._together) if a != axis)
            counted = cube.sum(axis=others)
            found[self._first : self._first + length] += counted[:length]
        return found
