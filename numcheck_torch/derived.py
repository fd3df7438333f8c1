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
    """What is done to extremes.

    Attributes:
        level: how many others have to be done before.
        name: see `numcheck_torch.monotone.Change`; ``cast`` or ``join``.
        before: format of the operand.
        after: format of the result.
    """

    level: int
    name: str
    before: str
    after: str


@dataclasses.dataclass(slots=True)
class _Group:
    """Sites to which the same is done, and the rows of their operands and their own.

    Attributes:
        starts: where the operands of each site begin.
    """

    sites: list[int] = dataclasses.field(default_factory=list)
    operands: list[int] = dataclasses.field(default_factory=list)
    starts: list[int] = dataclasses.field(default_factory=list)
    results: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """How the rows of all sites come about.

    Attributes:
        rows_before: the rows of what was measured.
        outer: which sites have no extremes, and how many sites there are.
        inner: see `Derived._inner`.
        rows: of all sites that have extremes.
        sizes: number of elements of each row.
        groups: what is done, each level after the one before.
        others: sites that follow from one without extremes, the site, and whether
            they are no more than as large.
    """

    rows_before: Mapping[int, int]
    outer: tuple[list[int], int]
    inner: tuple[Any, ...]
    rows: dict[int, int]
    sizes: list[int]
    groups: dict[_Kind, _Group] = dataclasses.field(default_factory=dict)
    others: list[tuple[int, int, bool]] = dataclasses.field(default_factory=list)

    def add(self, site: int, kind: _Kind, operands: list[int]) -> None:
        """Give a site a row of its own, made of those of its operands."""
        group = self.groups.setdefault(kind, _Group())
        group.sites.append(site)
        group.starts.append(len(group.operands))
        group.operands += operands
        group.results.append(len(self.sizes))
        self.rows[site] = len(self.sizes)
        self.sizes.append(sum(self.sizes[operand] for operand in operands))


class Derived:
    """Which sites follow from which.

    Attributes:
        same: sites that hold exactly the elements of an earlier one.
        made: casts, and what keeps order: their extremes are made of an earlier
            site's.
        joined: sites put together of all elements of several others.
        changes: what is done to those that are no casts.
    """

    def __init__(self) -> None:
        self.same: dict[int, int] = {}
        self.made: dict[int, int] = {}
        self.joined: dict[int, tuple[int, ...]] = {}
        self.changes: dict[int, Change] = {}
        self._plan: _Plan | None = None
        self._is_settled = False

    def source(self, site: int) -> int:
        """Return the site that measured what a site holds."""
        return self.same.get(site, site)

    def root(self, site: int) -> int:
        """Return the site of whose measure all that is known of a site is made."""
        site = self.source(site)
        while site in self.made:
            site = self.source(self.made[site])
        return site

    def forget(self, site: int) -> None:
        """Forget what was known of a site's number in an earlier step."""
        self.same.pop(site, None)
        self.made.pop(site, None)
        self.joined.pop(site, None)
        self.changes.pop(site, None)
        self._is_settled = False

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
        for kind in sorted(plan.groups, key=lambda kind: kind.level):
            group = plan.groups[kind]
            values[group.results, :2] = self._made(kind, group, values)
        known = [(plan.rows[s], sums) for s, sums in summed.items() if s in plan.rows]
        if known:
            values[[row for row, _ in known], 2:] = [sums for _, sums in known]
        others = dict(found.others)
        for site, before, is_same in plan.others:
            held = others[before]
            others[site] = held if is_same else Summary(n=held.n)
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
        if kind.name == "join":
            lows = np.minimum.reduceat(operands[:, 0], group.starts)
            highs = np.maximum.reduceat(operands[:, 1], group.starts)
            return np.stack((lows, highs), axis=1)
        if kind.name == "cast":
            return rounded(operands, kind.before, kind.after)
        numbers = [self.changes[site].number for site in group.sites]
        has_number = numbers[0] is not None
        return changed(
            operands, kind.name, np.array(numbers) if has_number else None, kind.after
        )

    def _planned(self, found: SummaryColumns, sites: Sequence[Site]) -> _Plan:
        """Return how all rows come about; the last step's where nothing was added."""
        before, end = self._plan, len(sites)
        outer = list(found.others), end
        if before is not None and before.rows_before is found.rows:
            if self._is_settled and before.outer == outer:
                return before
            # Sites that are added anew at each step are mostly the same ones again.
            if before.outer == outer and before.inner == self._inner(sites):
                self._is_settled = True
                return before
        self._plan = self._new_plan(found, sites)
        self._is_settled = True
        return self._plan

    def _inner(self, sites: Sequence[Site]) -> tuple[Any, ...]:
        """Return copies of all that is known of sites that follow."""
        end = len(sites)
        names = [c.name for c in self.changes.values()]
        formats = [sites[i].dtype for i in self.made if i < end]
        formats += [sites[b].dtype for i, b in self.made.items() if i < end]
        return names, formats, dict(self.same), dict(self.made), dict(self.joined)

    def _new_plan(self, found: SummaryColumns, sites: Sequence[Site]) -> _Plan:
        plan = _Plan(
            found.rows,
            (list(found.others), len(sites)),
            self._inner(sites),
            dict(found.rows),
            list(found.sizes),
        )
        levels: dict[int, int] = {}
        bare = set(found.others)
        # An earlier step had perhaps more sites than this one.
        following = (*self.same, *self.made, *self.joined)
        for site in sorted({s for s in following if s < len(sites)}):
            given, operand = self._operands(site), self.source(site)
            rows = [plan.rows[g] for g in given if g in plan.rows]
            if rows:
                kind = self._kind(site, max(levels.get(r, 0) for r in rows), sites)
                plan.add(site, kind, rows)
                levels[plan.rows[site]] = kind.level + 1
            elif operand in plan.rows:
                plan.rows[site] = plan.rows[operand]
            elif known := [s for s in (*given, operand) if s in bare]:
                plan.others.append((site, known[0], not given))
                bare.add(site)
        return plan

    def _operands(self, site: int) -> tuple[int, ...]:
        """Return the sites of whose extremes those of a site are made."""
        if site in self.made:
            return (self.made[site],)
        return self.joined.get(site, ())

    def _kind(self, site: int, level: int, sites: Sequence[Site]) -> _Kind:
        if site in self.joined:
            return _Kind(level, "join", "", "")
        change, before = self.changes.get(site), self.made[site]
        name = "cast" if change is None else change.name
        return _Kind(level, name, sites[before].dtype, sites[site].dtype)
