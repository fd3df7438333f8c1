# SPDX-License-Identifier: Apache-2.0
"""Which samples of a batch carry a failure, found by running parts of the batch."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck.diagnose.laboratory import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Carriers", "carrying_rows"]

_FEW = 4  # more carriers than this are no outliers
_MOST_RUNS = 48


@dataclasses.dataclass(frozen=True, slots=True)
class Carriers:
    """Samples that make the step fail.

    Attributes:
        rows: samples that fail, ascending; empty when no few of them do.
        heals: whether the batch without them is healthy.
        together: whether none of them fails alone, and all of them together do.
    """

    rows: tuple[int, ...]
    heals: bool
    together: bool = False


def carrying_rows(
    total: int,
    fails: Callable[[Sequence[int]], bool],
    has_time: Callable[[], bool] = lambda: True,
) -> Carriers:
    """Return the few samples that carry a failure, by halving the batch.

    Args:
        total: number of samples; the whole batch is known to fail.
        fails: whether the step fails on the given samples alone.
        has_time: asked before every run; False stops the search.

    Raises:
        CannotRunError: the search was stopped before it came to an answer.

    Example:
        >>> carrying_rows(8, lambda rows: 5 in rows)
        Carriers(rows=(5,), heals=True, together=False)
    """
    left = list(range(total))
    found: list[int] = []
    runs = 0

    known: dict[tuple[int, ...], bool] = {}

    def test(rows: Sequence[int]) -> bool:
        nonlocal runs
        if tuple(rows) in known:
            return known[tuple(rows)]
        runs += 1
        if runs > _MOST_RUNS or not has_time():
            raise CannotRunError("refusal.no_time")
        known[tuple(rows)] = fails(rows)
        return known[tuple(rows)]

    if total >= 2 * _FEW:
        spread = [i * (total - 1) // (_FEW - 1) for i in range(_FEW)]
        if all(test([row]) for row in spread):
            return Carriers(tuple(spread), heals=False)
    while len(found) < min(_FEW, total - 1):
        row = _one(left, test)
        if row is None:
            break
        found.append(row)
        left.remove(row)
        if not test(left):
            return Carriers(tuple(sorted(found)), heals=True)
    if found:
        return Carriers(tuple(sorted(found)), heals=False)
    return _together(left, test)


def _together(rows: Sequence[int], test: Callable[[Sequence[int]], bool]) -> Carriers:
    """Return few samples that fail only together, where the rest is healthy."""
    group = _group(rows, test)
    if group and not test([row for row in rows if row not in group]):
        return Carriers(group, heals=True, together=True)
    return Carriers((), heals=False)


def _group(
    rows: Sequence[int], test: Callable[[Sequence[int]], bool]
) -> tuple[int, ...]:
    """Return few samples that fail together and not without one of them; else none.

    The last sample that a failing beginning of the batch needs belongs to them. With
    it at hand, a shorter beginning is enough, which shows the next one.
    """
    group: list[int] = []
    part = list(rows)
    while len(group) < min(_FEW, len(rows) // 2):
        low, high = 0, len(part)
        while high - low > 1:
            middle = (low + high) // 2
            if test(sorted([*part[:middle], *group])):
                high = middle
            else:
                low = middle
        if not high:
            break
        group.append(part[high - 1])
        part = part[: high - 1]
        if test(sorted(group)):
            return tuple(sorted(group))
    return ()


def _one(rows: Sequence[int], test: Callable[[Sequence[int]], bool]) -> int | None:
    """Return a sample that fails on its own; None when halving leads to none.

    A half is not run when the other one is healthy: the sample it leads to is run
    alone at the end, which settles it.
    """
    part = list(rows)
    while len(part) > 1:
        middle = len(part) // 2
        first, second = part[:middle], part[middle:]
        part = first if test(first) else second
    return part[0] if part and test(part) else None
