# SPDX-License-Identifier: Apache-2.0
"""Adds the operators of compiled graphs to a recording, as the graphs run."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numcheck.record.site import Site
    from numcheck.record.trace import TraceBuilder
    from numcheck_torch.compile.again import Computed
    from numcheck_torch.compile.extra_output import Extra
    from numcheck_torch.compile.table import GraphTable, Reference
    from numcheck_torch.meters import Meter
    from numcheck_torch.monotone import Change
    from numcheck_torch.site_log import SiteLog

__all__ = ["GraphRuns"]


@dataclasses.dataclass(frozen=True, slots=True)
class _Started:
    inputs: list[int | None]
    shapes: list[tuple[int, ...]]
    tensors: list[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class _Placed:
    key: tuple[Any, ...]
    sites: list[Site]
    following: set[int]
    changes: dict[int, Change]
    copies: dict[int, int]


class GraphRuns:
    """What a recorder does when a compiled graph runs.

    Args:
        log: receives the sites.
        meter: receives the extremes.
        attempt: runs a part of the recorder, so that its failure stays its own.
        mark: called with the graph's table before its sites are added.
    """

    def __init__(
        self,
        log: SiteLog,
        meter: Meter,
        attempt: Callable[..., bool],
        mark: Callable[[GraphTable], None],
    ) -> None:
        self.is_paused = False
        self._log = log
        self._meter = meter
        self._attempt = attempt
        self._mark = mark
        self._placed: dict[GraphTable, _Placed] = {}
        self._started: _Started | None = None
        self._builder: TraceBuilder | None = None
        self._runs: dict[Computed, list[range]] = {}

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing inside the block."""
        before, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = before

    def graph_starts(self, table: GraphTable, args: Sequence[Any]) -> _Started | None:
        """Find the sites of a graph's arguments."""
        self._started = None
        self._attempt(self._find, table, args)
        return self._started

    def graph_ran(
        self,
        table: GraphTable,
        extras: Sequence[Extra],
        found: Sequence[torch.Tensor],
        prepared: _Started | None,
        results: Sequence[Any],
    ) -> None:
        """Add the sites of a graph that ran."""
        if prepared is not None:
            self._attempt(self._add, table, extras, found, prepared, results)

    def _find(self, table: GraphTable, args: Sequence[Any]) -> None:
        written = {row.written for row in table.rows if row.written is not None}
        self._started = _Started(
            inputs=[
                self._log.site_of(a) if isinstance(a, torch.Tensor) else None
                for a in args
            ],
            shapes=table.sizes.of(args),
            tensors=[a if i in written else None for i, a in enumerate(args)],
        )

    def _add(
        self,
        table: GraphTable,
        extras: Sequence[Extra],
        found: Sequence[torch.Tensor],
        started: _Started,
        results: Sequence[Any],
    ) -> None:
        self._mark(table)
        sites = self._add_sites(table, started)

        def site_of(reference: Reference) -> int | None:
            kind, number = reference
            return started.inputs[number] if kind == "input" else sites[number]

        for extra, rows in zip(extras, found, strict=True):
            measured = [(sites[i], math.prod(started.shapes[i])) for i in extra.rows]
            self._meter.adopt(measured, rows)
        for row, site in zip(table.rows, sites, strict=True):
            if row.written is not None:
                self._log.memory.set(started.tensors[row.written], site, is_write=True)
        for reference, value in zip(table.outputs, results, strict=False):
            if reference is not None and isinstance(value, torch.Tensor):
                known = site_of(reference)
                if known is not None:
                    self._log.memory.set(value, known, is_write=False)

    def _add_sites(self, table: GraphTable, started: _Started) -> list[int]:
        """Add the rows of a graph; those of a run like the last are taken over."""
        first = len(self._log.builder.sites)
        run = range(first, first + len(table.rows))
        before = self._run_before(table, started)
        key = first, started.inputs, started.shapes, self._log.phase, before
        placed = self._placed.get(table)
        if placed is None or placed.key != key:
            placed = self._placed[table] = self._place(table, started, key)
        self._log.extend(placed.sites, placed.following, placed.changes, placed.copies)
        if table.phase == "forward":
            self._runs.setdefault(table.computed, []).append(run)
        return list(run)

    def _run_before(self, table: GraphTable, started: _Started) -> int | None:
        """Return where the forward run begins whose values a backward graph got."""
        if self._builder is not self._log.builder:
            self._builder = self._log.builder
            self._runs.clear()
        runs = self._runs.get(table.computed, ())
        sites = [started.inputs[position] for position in table.saved]
        found = {run.start for run in runs for site in sites if site in run}
        return found.pop() if len(found) == 1 else None

    def _place(
        self, table: GraphTable, started: _Started, key: tuple[Any, ...]
    ) -> _Placed:
        first, before = key[0], key[-1]

        def site_of(reference: Reference) -> int | None:
            kind, number = reference
            return started.inputs[number] if kind == "input" else first + number

        placed = _Placed(key, [], set(), {}, {})
        for row, shape in zip(table.rows, started.shapes, strict=True):
            index = first + len(placed.sites)
            parents = tuple(p for p in map(site_of, row.parents) if p is not None)
            phase = self._log.phase if row.site.phase == "forward" else row.site.phase
            placed.sites.append(
                dataclasses.replace(
                    row.site, index=index, parents=parents, shape=shape, phase=phase
                )
            )
            if row.follows:
                placed.following.add(index)
            elif row.again is not None and before is not None:
                placed.copies[index] = before + row.again
            elif row.change is not None:
                placed.changes[index] = row.change
        return placed
