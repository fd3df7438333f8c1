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
_EXPONENT: Final = np.array(0xFF << _STORED, np.uint32)


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
        self._counts: NDArray[np.int64] | None = None  # until the first piece
        self._fields = np.zeros(256, np.int64)
        self._total, self._field, self._index = total, field, index
        # Ready as arrays, which ufuncs take faster than scalars.
        self._offset = np.zeros((), np.uint32)
        self._down = [np.array(place * width, np.uint32) for place in range(together)]
        self._to_index = np.array(_STORED - (together - 1) * width, np.uint32)

    def can_hold(self, lowest: int, highest: int) -> bool:
        """Whether a window spans these fields."""
        return highest - lowest < 1 << self._width

    def add(self, bits: Bits, lowest: int, highest: int) -> int:
        """Count fields between two, both held; return the number of elements done."""
        counts = self._window(lowest, highest)
        part = bits.size // self._together
        total, field = self._total[:part], self._field[:part]
        np.bitwise_and(bits[:part], _EXPONENT, out=total)
        for place in range(1, self._together):
            fields = bits[place * part : (place + 1) * part]
            np.bitwise_and(fields, _EXPONENT, out=field)
            np.right_shift(field, self._down[place], out=field)
            np.add(total, field, out=total)
        np.right_shift(total, self._to_index, out=total)
        np.subtract(total, self._offset, out=total)
        index = self._index[:part]
        np.copyto(index, total)
        np.add.at(counts, index, 1)
        return part * self._together

    def _window(self, lowest: int, highest: int) -> NDArray[np.int64]:
        """Return where to count, with a window that spans these fields."""
        length = 1 << self._width
        if self._counts is None:
            self._counts = np.zeros(length**self._together, np.int64)
        if lowest < self._first or highest >= self._first + length:
            self._fold()
            spare = length - 1 - (highest - lowest)
            self._first = max(0, lowest - spare // 2)
            unit = sum(length**place for place in range(self._together))
            self._offset = np.array(self._first * unit, np.uint32)
        return self._counts

    def _fold(self) -> None:
        """Move what was counted so far to where fields are counted one by one."""
        if self._counts is None:
            return
        length = 1 << self._width
        kept = min(length, self._fields.size - self._first)
        counts = self._counts
        for _ in range(self._together):
            table = counts.reshape(length, -1)
            self._fields[self._first : self._first + kept] += table.sum(axis=1)[:kept]
            counts = table.sum(axis=0)
        self._counts[:] = 0

    def fields(self) -> NDArray[np.int64]:
        """Return the number of elements by field."""
        self._fold()
        return self._fields
