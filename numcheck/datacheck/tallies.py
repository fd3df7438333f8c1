# SPDX-License-Identifier: Apache-2.0
"""What is counted in labels, masks, counts and group numbers; all of it merges."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.datacheck.columns import NO_ROW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.datacheck.settings import Settings

__all__ = ["Groups", "Labels", "MaskRows", "count_groups", "count_labels", "count_rows"]

_MOST_GROUPS: Final = 1 << 22


@dataclasses.dataclass(frozen=True, slots=True)
class Labels:
    """Labels of a classification.

    Attributes:
        n: how many.
        ignored: those that the loss leaves out.
        outside: those below zero or past the last class, and not ignored.
        first: (row, label) of the first of these; the row is `NO_ROW` without any.
        low: smallest label that is not ignored.
        high: largest, likewise, and its row.
    """

    n: int
    ignored: int
    outside: int
    first: tuple[int, float]
    low: float
    high: tuple[float, int]

    def merge(self, other: Labels) -> Labels:
        """Return the counts of both parts."""
        return Labels(
            self.n + other.n,
            self.ignored + other.ignored,
            self.outside + other.outside,
            min(self.first, other.first),
            min(self.low, other.low),
            max(self.high, other.high, key=lambda h: (h[0], -h[1])),
        )


def count_labels(array: NDArray[Any], settings: Settings, start: int = 0) -> Labels:
    """Return the counts of labels (rows, …), one a row or more.

    Example:
        >>> from numcheck.datacheck.settings import Settings
        >>> found = count_labels(np.array([0, 3, -100]), Settings(classes=3))
        >>> found.outside, found.first, found.ignored
        (1, (1, 3.0), 1)
    """
    x = np.asarray(array, np.float64).ravel()
    inner = max(x.size // max(len(array), 1), 1)
    used = x != settings.ignore_index
    limit = np.inf if settings.classes is None else settings.classes
    outside = used & ((x < 0) | (x >= limit))
    first = (NO_ROW, 0.0)
    if outside.any():
        at = int(outside.argmax())
        first = (start + at // inner, float(x[at]))
    kept = np.where(used & np.isfinite(x), x, -np.inf)
    at = int(kept.argmax())
    low = np.where(used & np.isfinite(x), x, np.inf).min()
    return Labels(
        x.size,
        int(x.size - used.sum()),
        int(outside.sum()),
        first,
        float(low),
        (float(kept[at]), start + at // inner),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class MaskRows:
    """Rows (along the last axis) of a mask.

    Attributes:
        n: how many.
        empty: those in which nothing is visible.
        first: first sample that has one; `NO_ROW` without any.
    """

    n: int
    empty: int
    first: int

    def merge(self, other: MaskRows) -> MaskRows:
        """Return the counts of both parts."""
        first = min(self.first, other.first)
        return MaskRows(self.n + other.n, self.empty + other.empty, first)


def count_rows(array: NDArray[Any], name: str, start: int = 0) -> MaskRows:
    """Return the counts of a mask (rows, …, keys).

    A mask added to scores shows where it is above -1e4 (as it is written for float16).
    Any other shows where it is not zero, unless its name says that it tells padding.

    Example:
        >>> mask = np.array([[True, False], [False, False]])
        >>> count_rows(mask, "mask").empty, count_rows(mask, "key_padding_mask").empty
        (1, 0)
    """
    x = np.asarray(array, np.float64)
    x = x.reshape(len(x), -1) if x.ndim < 2 else x
    if x.size and x.min() < 0:
        visible = x > -1e4
    elif "padding" in name.lower():
        visible = x == 0
    else:
        visible = x != 0
    empty = np.asarray(~visible.any(axis=-1))
    inner = max(empty.size // max(len(empty), 1), 1)
    first = start + int(empty.argmax()) // inner if empty.any() else NO_ROW
    return MaskRows(int(empty.size), int(empty.sum()), first)


@dataclasses.dataclass(frozen=True, slots=True)
class Groups:
    """Numbers of the groups that elements belong to.

    Attributes:
        seen: whether each number occurred, from zero on.
    """

    seen: NDArray[np.bool_]

    @property
    def missing(self) -> int | None:
        """The first number that no element has; None when all have members."""
        gaps = ~self.seen
        return int(gaps.argmax()) if gaps.any() else None

    def merge(self, other: Groups) -> Groups:
        """Return the groups of both parts."""
        long, short = sorted((self.seen, other.seen), key=len, reverse=True)
        together = long.copy()
        together[: len(short)] |= short
        return Groups(together)


def count_groups(array: NDArray[Any]) -> Groups:
    """Return which groups have a member; numbers beyond four million are left out.

    Example:
        >>> count_groups(np.array([0, 0, 2])).missing
        1
    """
    x = array[(array >= 0) & (array < _MOST_GROUPS)].ravel()
    seen = np.zeros(int(x.max()) + 1 if x.size else 0, np.bool_)
    seen[x] = True
    return Groups(seen)
