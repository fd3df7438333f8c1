# SPDX-License-Identifier: Apache-2.0
"""Statistics of each column that merge, so that a stream of batches can be checked."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.datacheck.sample import sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from numcheck.datacheck.layout import Layout
    from numcheck.datacheck.sample import Sample

__all__ = ["NO_ROW", "SENTINELS", "Columns", "measure"]

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

NO_ROW: Final = np.iinfo(np.int64).max

SENTINELS: Final[tuple[float, ...]] = (
    *(-1.0, -999.0, -9999.0, -99999.0, 9999.0, 99999.0, 999999.0),
    *(-32768.0, -2147483648.0, -9223372036854775808.0),
    *(1e20, -1e20, 1e30, -1e30, 1e36, 1e37, 1e38, -1e38),
    9.969209968386869e36,  # netCDF's fill value for float and double
    float(np.finfo(np.float32).max),
    float(np.finfo(np.float32).min),
)
"""Numbers that stand for a missing value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Columns:
    """What was seen of each column; every array has one entry for each.

    Attributes:
        n: elements.
        nan: NaN among them.
        inf: Inf of either sign.
        bad_row: first row that holds one of these; `NO_ROW` where none does.
        low: smallest finite value; Inf where there is none.
        high: largest finite value; -Inf where there is none.
        low_row: row of the smallest value.
        high_row: row of the largest value.
        amin: smallest non-zero magnitude; Inf where there is none.
        has_small_negative: whether a value lies between -1 and 0.
        is_whole: whether all finite values are integers.
        sentinels: how often each number that may stand for a missing value was the
            column's smallest or largest.
        sample: rows to take medians of.
    """

    n: Ints
    nan: Ints
    inf: Ints
    bad_row: Ints
    low: Floats
    high: Floats
    low_row: Ints
    high_row: Ints
    amin: Floats
    has_small_negative: Bools
    is_whole: Bools
    sentinels: Mapping[float, Ints]
    sample: Sample

    @property
    def finite(self) -> Ints:
        """Finite elements of each column."""
        return self.n - self.nan - self.inf

    @property
    def amax(self) -> Floats:
        """Largest finite magnitude of each column; zero where there is none."""
        most = np.maximum(-self.low, self.high)
        return np.where(self.finite > 0, most, 0.0)

    def merge(self, other: Columns) -> Columns:
        """Return the statistics of both parts; exact, in any order."""
        lower, higher = other.low < self.low, other.high > self.high
        # Of equal extremes the first row counts, whichever part came first.
        lower |= (other.low == self.low) & (other.low_row < self.low_row)
        higher |= (other.high == self.high) & (other.high_row < self.high_row)
        nothing = np.zeros_like(self.n)
        return Columns(
            n=self.n + other.n,
            nan=self.nan + other.nan,
            inf=self.inf + other.inf,
            bad_row=np.minimum(self.bad_row, other.bad_row),
            low=np.where(lower, other.low, self.low),
            high=np.where(higher, other.high, self.high),
            low_row=np.where(lower, other.low_row, self.low_row),
            high_row=np.where(higher, other.high_row, self.high_row),
            amin=np.minimum(self.amin, other.amin),
            has_small_negative=self.has_small_negative | other.has_small_negative,
            is_whole=self.is_whole & other.is_whole,
            sentinels={
                value: self.sentinels.get(value, nothing)
                + other.sentinels.get(value, nothing)
                for value in {**self.sentinels, **other.sentinels}
            },
            sample=self.sample.merge(other.sample),
        )


def measure(array: NDArray[Any], layout: Layout, start: int = 0) -> Columns:
    """Return the statistics of the columns of an array with at least one element.

    Args:
        array: (rows, …), real numbers.
        layout: which elements are one column.
        start: number of its first row.

    Example:
        >>> from numcheck.datacheck.layout import layout_of
        >>> x = np.array([[1.0, np.nan], [2.0, 5.0]])
        >>> found = measure(x, layout_of(x.shape))
        >>> found.high.tolist(), found.nan.tolist(), found.bad_row.tolist()[1]
        ([2.0, 5.0], [0, 1], 0)
    """
    x = layout.matrix(array)
    inner = max(len(x) // max(len(array), 1), 1)
    bad = ~np.isfinite(x)
    has_bad = bool(bad.any())
    low_at = np.where(bad, np.inf, x) if has_bad else x
    high_at = np.where(bad, -np.inf, x) if has_bad else x
    low_row, high_row = low_at.argmin(axis=0), high_at.argmax(axis=0)
    low, high = low_at.min(axis=0), high_at.max(axis=0)
    nan = np.isnan(x).sum(axis=0) if has_bad else np.zeros(x.shape[1], np.int64)
    first_bad = np.where(bad.any(axis=0), start + bad.argmax(axis=0) // inner, NO_ROW)
    size = np.abs(low_at)
    is_whole = (np.rint(x) == x) | bad
    return Columns(
        n=np.full(x.shape[1], len(x), np.int64),
        nan=nan,
        inf=bad.sum(axis=0) - nan,
        bad_row=first_bad,
        low=low,
        high=high,
        low_row=start + low_row // inner,
        high_row=start + high_row // inner,
        amin=np.where(size > 0, size, np.inf).min(axis=0),
        has_small_negative=np.asarray(((x > -1) & (x < 0)).any(axis=0)),
        is_whole=is_whole.all(axis=0),
        sentinels=_sentinels(x, low, high, array.dtype),
        sample=sample(x, start * inner),
    )


def _sentinels(
    x: Floats, low: Floats, high: Floats, dtype: np.dtype[Any]
) -> dict[float, Ints]:
    """Return how often the columns' extremes occur where these are sentinels."""
    found: dict[float, Ints] = {}
    extremes = {*low.tolist(), *high.tolist()}
    for value in SENTINELS:
        for stored in _stored(value, dtype) & extremes:
            held = (low == stored) | (high == stored)
            times = np.where(held, (x == stored).sum(axis=0), 0)
            found[value] = found.get(value, 0) + times
    return found


def _stored(value: float, dtype: np.dtype[Any]) -> set[float]:
    """Return how a dtype may hold a number; nothing where it cannot.

    What was float32 once and is float64 now (a table of text) is rounded still.
    """
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        # The least 16-bit integer is a clipped sample of sound.
        is_clipped = value == limits.min and dtype.itemsize <= 2
        fits = limits.min <= value <= limits.max
        return {value} if fits and not is_clipped else set()
    if dtype.kind == "b":
        return set()
    through = {dtype, np.dtype(np.float32)} if dtype.itemsize > 4 else {dtype}
    with np.errstate(over="ignore"):
        held = {float(np.float64(value).astype(d)) for d in through}
    return {number for number in held if np.isfinite(number)}
