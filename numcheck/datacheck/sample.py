# SPDX-License-Identifier: Apache-2.0
"""A fixed random sample of rows that merges exactly, for medians of any stream."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Centre", "Sample", "centre_of", "sample"]

_ELEMENTS: Final = 1 << 20
_NORMAL: Final = 1.4826  # median absolute deviation to standard deviation
_ENOUGH: Final = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """The rows whose numbers hash lowest, whichever way the data were divided.

    Attributes:
        keys: hashes of the rows, ascending.
        values: (rows, columns).
    """

    keys: NDArray[np.uint64]
    values: NDArray[np.float64]

    def merge(self, other: Sample) -> Sample:
        """Return the sample of both parts together."""
        keys = np.concatenate([self.keys, other.keys])
        values = np.concatenate([self.values, other.values])
        chosen = np.argsort(keys)[: _capacity(values.shape[1])]
        return Sample(keys[chosen], values[chosen])


@dataclasses.dataclass(frozen=True, slots=True)
class Centre:
    """Where most of each column lies.

    Attributes:
        median: NaN for a column without a finite number.
        scale: robust standard deviation; positive.
        reach: largest magnitude within 100 of these from the median.
    """

    median: NDArray[np.float64]
    scale: NDArray[np.float64]
    reach: NDArray[np.float64]


def sample(matrix: NDArray[np.float64], start: int) -> Sample:
    """Return the sample of (elements, columns) that are numbered from `start`."""
    keys = _hashes(np.arange(start, start + len(matrix), dtype=np.uint64))
    most = _capacity(matrix.shape[1])
    if len(keys) > most:
        chosen = np.argpartition(keys, most)[:most]
    else:
        chosen = np.arange(len(keys))
    chosen = chosen[np.argsort(keys[chosen])]
    return Sample(keys[chosen], matrix[chosen])


def centre_of(values: NDArray[np.float64]) -> Centre:
    """Return where most of each column lies; what is not finite is left out.

    Where more than half of a column is one value, the others' distance from it is
    the scale, so that rare ones among zeros are none too far out.

    Example:
        >>> found = centre_of(np.array([[1.0], [2.0], [3.0], [1e30]]))
        >>> found.median.tolist(), found.reach.tolist()
        ([2.5], [3.0])
    """
    x = np.where(np.isfinite(values), values, np.nan)
    median = _medians(x)
    with np.errstate(over="ignore"):
        away = np.abs(x - median)
    scale = _NORMAL * _medians(away)
    moved = np.where(away > 0, away, np.nan)
    many = (~np.isnan(moved)).sum(axis=0) >= _ENOUGH
    wide = np.fmax(np.abs(median), 1.0)
    other = np.where(many, _medians(moved), wide)
    scale = np.where(scale > 0, scale, np.where(np.isnan(other), 1.0, other))
    near = np.where(away <= 100 * scale, np.abs(x), 0.0)
    return Centre(median, scale, near.max(axis=0, initial=0.0))


def _medians(x: NDArray[np.float64]) -> NDArray[Any]:
    """Return the median of each column without its NaN; NaN where nothing is left."""
    if not len(x):
        return np.full(x.shape[1], np.nan)
    ordered = np.sort(x, axis=0)
    count = (~np.isnan(x)).sum(axis=0)
    below = np.take_along_axis(ordered, np.maximum(count - 1, 0)[None] // 2, axis=0)
    above = np.take_along_axis(ordered, count[None] // 2, axis=0)
    middle = np.where(count % 2 == 1, below, below / 2 + above / 2)
    result: NDArray[Any] = middle[0]
    return result


def _capacity(columns: int) -> int:
    return min(max(_ELEMENTS // max(columns, 1), 64), 4096)


def _hashes(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return SplitMix64 of each number (Steele, Lea, Flood 2014): one to one."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
