# SPDX-License-Identifier: Apache-2.0
"""How often each code of a narrow format occurs: everything about an array at once.

An array of a 16-bit format has at most 65536 different values, so the counts of its
codes answer every question that does not depend on order, exactly and for every
target format, without touching the array again.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.formats._arrays import (
    as_array,
    chunks,
    codes_of,
    format_of,
    in_memory_order,
)
from numcheck.formats._codes import code_values
from numcheck.measure.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from numcheck.formats._format import Format

__all__ = ["CodeHistogram"]

_CODED_BITS: Final = 16
_PIECE: Final = 1 << 18


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CodeHistogram:
    """Counts of the codes of one format.

    Attributes:
        format: the format whose codes were counted, of at most 16 bits.
        counts: int64 of shape (2**bits,), indexed by code.
    """

    format: Format
    counts: NDArray[np.int64]

    @classmethod
    def of(
        cls, array: object, *, progress: Callable[[int], None] | None = None
    ) -> CodeHistogram:
        """Count the codes of an array whose dtype has at most 16 bits.

        Example:
            >>> import numpy as np
            >>> counted = CodeHistogram.of(np.ones(5, np.float16))
            >>> int(counted.counts[0x3C00])
            5
        """
        values = as_array(array)
        fmt = format_of(values)
        if fmt is None or fmt.bits > _CODED_BITS:
            raise ArgumentTypeError(
                "codes can be counted for dtypes of at most 16 bits, got "
                f"{values.dtype}"
            )
        counts = np.zeros(1 << (8 * values.dtype.itemsize), np.int64)
        for piece in chunks(in_memory_order(values), _PIECE):
            np.add.at(counts, codes_of(piece).astype(np.intp), 1)
            if progress is not None:
                progress(piece.size)
        # A format narrower than its storage leaves the upper bits undefined.
        kept = 1 << fmt.bits
        return cls(fmt, counts.reshape(-1, kept).sum(axis=0))

    def merge(self, other: CodeHistogram) -> CodeHistogram:
        """Return the histogram of both arrays' elements together."""
        if other.format != self.format:
            raise ArgumentError(
                f"cannot merge counts of {self.format} codes with {other.format} codes"
            )
        return CodeHistogram(self.format, self.counts + other.counts)

    def weighted_values(
        self,
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
        """Yield the finite values that occur, and how often each does."""
        present = np.flatnonzero(self.counts)
        values = code_values(self.format)[present]
        finite = np.isfinite(values)
        yield values[finite], self.counts[present][finite]

    def summary(self, *, histogram: bool = True) -> Summary:
        """Return the `Summary` of the counted array.

        Example:
            >>> import numpy as np
            >>> CodeHistogram.of(np.arange(4, dtype=np.float16)).summary().total
            6.0
        """
        present = np.flatnonzero(self.counts)
        values, counts = code_values(self.format)[present], self.counts[present]
        is_nan, finite = np.isnan(values), np.isfinite(values)
        magnitude = np.abs(values[finite])
        nonzero = magnitude > 0
        weights = counts[finite]
        small = nonzero & (magnitude < self.format.smallest_normal)
        return Summary(
            n=int(counts.sum()),
            nan=int(counts[is_nan].sum()),
            pos_inf=int(counts[values == np.inf].sum()),
            neg_inf=int(counts[values == -np.inf].sum()),
            zero=int(weights[~nonzero].sum()),
            subnormal=int(weights[small].sum()),
            low=_extreme(values, np.min),
            high=_extreme(values, np.max),
            amax=_extreme(magnitude, np.max),
            amin=_extreme(magnitude[nonzero], np.min),
            total=math.fsum(values[finite] * weights),
            total_sq=math.fsum(magnitude**2 * weights),
            exponents=(
                _binades(magnitude[nonzero], weights[nonzero]) if histogram else None
            ),
        )


def _extreme(values: NDArray[np.float64], pick: Any) -> float | None:  # noqa: ANN401 - np.min or np.max
    return float(pick(values)) if values.size else None


def _binades(
    magnitude: NDArray[np.float64], weights: NDArray[np.int64]
) -> dict[int, int]:
    exponents = np.frexp(magnitude)[1] - 1
    found, place = np.unique(exponents, return_inverse=True)
    counts = np.zeros(found.size, np.int64)
    np.add.at(counts, place, weights)
    return {int(e): int(c) for e, c in zip(found, counts, strict=True)}
