# SPDX-License-Identifier: Apache-2.0
"""Sites whose measure follows from that of an earlier one.

What was moved has the elements of its operand; the extremes of what keeps their order
(`numcheck_torch.monotone`) are made of its operand's. A step that goes as the last one
went has the same sites of that kind, so how they hang together is worked out once.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from numcheck.measure.summary import Summary
from numcheck.record.columns import SummaryColumns
from numcheck_torch.monotone import changed, rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from numcheck.record.site import Site
    from numcheck_torch.monotone import Change

__all__ = ["Derived"]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class _Kind:
    """What is done to extremes: a cast where it is nothing else.

    Attributes:
        level: how many others have to be done before.
        name: see `numcheck_torch.monotone.Change`; empty for a cast.
        before: format of the operand.
        after: format of the result.
    """

    level: int
    name: str
    before: str
    after: str


@dataclasses.dataclass(slots=True)
class _Group:
    """Sites to which the same is done, and the rows of their operands and their own."""

    sites: list[int] = dataclasses.field(default_factory=list)
    operands: list[int] = dataclasses.field(default_factory=list)
    results: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """How the rows of all sites come about.

    Attributes:
        key: what it was made of.
        rows: of all sites that have extremes.
        sizes: number of elements of each row.
        groups: what is done, in this order.
        others: sites that follow from one without extremes, the site, and whether
            they are no more than as large.
    """

    key: tuple[Any, ...]
    rows: dict[int, int]
    sizes: list[int]
    groups: list[tuple[_Kind, _Group]]
    others: list[tuple[int, int, bool]]


class Derived:
    """Which sites follow from which.

    Attributes:
        same: sites that hold exactly the elements of an earlier one.
        made: casts, and what keeps order: their extremes are made of an earlier
            site's.
        changes: what is done to those that are no casts.
    """

    def __init__(self) -> None:
        self.same: dict[int, int] = {}
        self.made: dict[int, int] = {}
        self.changes: dict[int, Change] = {}
        self._plan: _Plan | None = None

    def source(self, site: int) -> int:
        """Return the site that measured what a site holds."""
        return self.same.get(site, site)

    def forget(self, site: int) -> None:
        """Forget what was known of a site's number in an earlier step."""
        self.same.pop(site, None)
        self.made.pop(site, None)
        self.changes.pop(site, None)

    def complete(
        self,
        found: SummaryColumns,
        sites: Sequence[Site],
        summed: Mapping[int, tuple[float, float]],
    ) -> SummaryColumns:
        """Return what was measured with all that follows from it.

        Args:
            found: what was measured.
            sites: those of the step.
            summed: the sums of some of them.
        """
        plan = self._planned(found, sites)
        values = np.full((len(plan.sizes), 4), np.nan)
        values[: len(found.cells), :2] = found.cells[:, :2]
        for kind, group in plan.groups:
            values[group.results, :2] = self._made(kind, group, values)
        for site, sums in summed.items():
            row = plan.rows.get(site)
            if row is not None:
                values[row, 2:] = sums
        others = dict(found.others)
        for site, before, is_same in plan.others:
            known = others[before]
            others[site] = known if is_same else Summary(n=known.n)
        return SummaryColumns(plan.rows, plan.sizes, values, others)

    def spread(self, values: Mapping[int, T], end: int) -> dict[int, T]:
        """Return values by site, given also to the sites of the same elements.

        Args:
            values: of the sites they were found for.
            end: how many sites the step has.
        """
        pairs = self.same.items()
        copies = {s: values[before] for s, before in pairs if before in values}
        both = {**values, **copies}
        return {site: both[site] for site in sorted(both) if site < end}

    def _made(
        self, kind: _Kind, group: _Group, values: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        operands = values[group.operands, :2]
        if not kind.name:
            return rounded(operands, kind.before, kind.after)
        numbers = [self.changes[site].number for site in group.sites]
        has_number = numbers[0] is not None
        return changed(
            operands, kind.name, np.array(numbers) if has_number else None, kind.after
        )

    def _planned(self, found: SummaryColumns, sites: Sequence[Site]) -> _Plan:
        names = [c.name for c in self.changes.values()]
        end = len(sites)
        formats = [sites[i].dtype for i in self.made if i < end]
        formats += [sites[b].dtype for i, b in self.made.items() if i < end]
        known = list(found.others), end, formats, names
        before = self._plan
        if (
            before is not None
            and before.key[0] is found.rows
            and before.key[1:] == (*known, self.same, self.made)
        ):
            return before
        key = found.rows, *known, dict(self.same), dict(self.made)
        self._plan = self._new_plan(key, found, sites)
        return self._plan

    def _new_plan(
        self, key: tuple[Any, ...], found: SummaryColumns, sites: Sequence[Site]
    ) -> _Plan:
        rows, sizes = dict(found.rows), list(found.sizes)
        groups: dict[_Kind, _Group] = {}
        levels: dict[int, int] = {}
        others: list[tuple[int, int, bool]] = []
        bare = set(found.others)
        # An earlier step had perhaps more sites than this one.
        following = {s for s in (*self.same, *self.made) if s < len(sites)}
        for site in sorted(following):
            before, operand = self.made.get(site, -1), self.source(site)
            if before in rows:
                kind = self._kind(site, before, levels.get(rows[before], 0), sites)
                group = groups.setdefault(kind, _Group())
                group.sites.append(site)
                group.operands.append(rows[before])
                group.results.append(len(sizes))
                rows[site] = len(sizes)
                levels[len(sizes)] = kind.level + 1
                sizes.append(sizes[group.operands[-1]])
            elif before in bare:
                others.append((site, before, False))
                bare.add(site)
            elif operand in rows:
                rows[site] = rows[operand]
            elif operand in bare:
                others.append((site, operand, True))
                bare.add(site)
        ordered = sorted(groups.items(), key=lambda item: item[0].level)
        return _Plan(key, rows, sizes, ordered, others)

    def _kind(self, site: int, before: int, level: int, sites: Sequence[Site]) -> _Kind:
        change = self.changes.get(site)
        name = "" if change is None else change.name
        return _Kind(level, name, sites[before].dtype, sites[site].dtype)
