# SPDX-License-Identifier: Apache-2.0
"""Adds the operators of compiled graphs to a recording, as the graphs run."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

import torch

from numcheck_torch import modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numcheck.record.site import Phase, Site
    from numcheck.record.trace import TraceBuilder
    from numcheck_torch.compile.again import Computed
    from numcheck_torch.compile.extra_output import Extra
    from numcheck_torch.compile.table import GraphTable, Reference
    from numcheck_torch.meters import Meter
    from numcheck_torch.monotone import Change
    from numcheck_torch.rehearsal import Rehearsal
    from numcheck_torch.site_log import SiteLog

__all__ = ["GraphRuns"]

_OF_MODULES: Final = ("parameter", "buffer")


@dataclasses.dataclass(frozen=True, slots=True)
class _Placed:
    key: tuple[Any, ...]
    sites: list[Site]
    following: set[int]
    changes: dict[int, Change]
    copies: dict[int, int]


@dataclasses.dataclass(slots=True)
class _Run:
    """One run of a graph at one place of a step.

    Attributes:
        table: the graph.
        shapes: those of its rows.
        phase: of the step.
        state: where the module's state that it got lies: layers may share a graph.
        inputs: sites of its arguments.
        placed: its own sites, once it ran.
        measured: (site, elements) of the rows of its extra outputs.
        outputs: sites of what it returns.
    """

    table: GraphTable
    shapes: list[tuple[int, ...]]
    phase: Phase
    state: list[int]
    inputs: list[int | None] = dataclasses.field(default_factory=list, compare=False)
    placed: _Placed | None = dataclasses.field(default=None, compare=False)
    measured: list[list[tuple[int, int]]] = dataclasses.field(
        default_factory=list, compare=False
    )
    outputs: list[int | None] = dataclasses.field(default_factory=list, compare=False)

    def site_of(self, reference: Reference, first: int) -> int | None:
        kind, number = reference
        return self.inputs[number] if kind == "input" else first + number


@dataclasses.dataclass(frozen=True, slots=True)
class _Started:
    run: _Run
    written: dict[int, torch.Tensor]


class GraphRuns:
    """What a recorder does when a compiled graph runs.

    Args:
        log: receives the sites.
        meter: receives the extremes.
        attempt: runs a part of the recorder, so that its failure stays its own.
        rehearsal: knows whether the last step ran the graph here too.
        mode: would be called for every operator that the graphs leave to PyTorch.
    """

    def __init__(
        self,
        log: SiteLog,
        meter: Meter,
        attempt: Callable[..., bool],
        rehearsal: Rehearsal | None,
        mode: object,
    ) -> None:
        self.is_paused = False
        self._log = log
        self._meter = meter
        self._attempt = attempt
        self._rehearsal = rehearsal
        self._mode = mode
        self._placed: dict[GraphTable, _Placed] = {}
        self._state: dict[GraphTable, tuple[int, ...]] = {}
        self._started: _Started | None = None
        self._builder: TraceBuilder | None = None
        self._runs: dict[Computed, list[range]] = {}

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing inside the block."""
        before, self.is_paused = self.is_paused, True
        try:
            with modes.away(self._mode):
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
        state = [args[i].data_ptr() for i in self._state.get(table, ())]
        run = _Run(table, table.sizes.of(args), self._log.phase, state)
        rehearsal = self._rehearsal
        known = None if rehearsal is None else rehearsal.resume(run, args)
        if known is None:
            first = len(self._log.builder.sites)
            run.inputs = [
                self._log.site_of(a) if isinstance(a, torch.Tensor) else None
                for a in args
            ]
            self._state[table] = self._named(run.inputs)
            run.state = [args[i].data_ptr() for i in self._state[table]]
            if rehearsal is not None:
                rehearsal.note_run(run, first, run.inputs)
        written = {row.written for row in table.rows if row.written is not None}
        self._started = _Started(known or run, {i: args[i] for i in written})

    def _named(self, inputs: Sequence[int | None]) -> tuple[int, ...]:
        """Return the positions of arguments that belong to a module."""
        sites = self._log.builder.sites
        return tuple(
            position
            for position, site in enumerate(inputs)
            if site is not None and sites[site].role in _OF_MODULES
        )

    def _add(
        self,
        table: GraphTable,
        extras: Sequence[Extra],
        found: Sequence[torch.Tensor],
        started: _Started,
        results: Sequence[Any],
    ) -> None:
        run, log = started.run, self._log
        first = len(log.builder.sites)
        before = self._run_before(table, run)
        if run.placed is None or run.placed.key[-1] != before:
            self._complete(run, extras, first, before)
        else:
            # The log knows from the last step what follows from what.
            log.builder.sites.extend(run.placed.sites)
        if table.phase == "forward":
            rows = range(first, first + len(table.rows))
            self._runs.setdefault(table.computed, []).append(rows)
        for measured, rows_found in zip(run.measured, found, strict=True):
            self._meter.adopt(measured, rows_found)
        for number, row in enumerate(table.rows) if started.written else ():
            if row.written is not None:
                tensor = started.written[row.written]
                log.memory.set(tensor, first + number, is_write=True)
        for site, value in zip(run.outputs, results, strict=False):
            if site is not None and isinstance(value, torch.Tensor):
                log.memory.set(value, site, is_write=False)

    def _complete(
        self, run: _Run, extras: Sequence[Extra], first: int, before: int | None
    ) -> None:
        """Add the rows of a graph that did not run here in the last step."""
        table = run.table
        key = first, run.inputs, run.shapes, run.phase, before
        placed = self._placed.get(table)
        if placed is None or placed.key != key:
            placed = self._placed[table] = self._place(run, key)
        self._log.extend(placed.sites, placed.following, placed.changes, placed.copies)
        run.placed = placed
        run.measured = [
            [(first + i, math.prod(run.shapes[i])) for i in extra.rows]
            for extra in extras
        ]
        run.outputs = [
            None if reference is None else run.site_of(reference, first)
            for reference in table.outputs
        ]

    def _run_before(self, table: GraphTable, run: _Run) -> int | None:
        """Return where the forward run begins whose values a backward graph got."""
        if self._builder is not self._log.builder:
            self._builder = self._log.builder
            self._runs.clear()
        runs = self._runs.get(table.computed, ())
        sites = [run.inputs[position] for position in table.saved]
        found = {run.start for run in runs for site in sites if site in run}
        return found.pop() if len(found) == 1 else None

    def _place(self, run: _Run, key: tuple[Any, ...]) -> _Placed:
        first, before = key[0], key[-1]
        placed = _Placed(key, [], set(), {}, {})
        for row, shape in zip(run.table.rows, run.shapes, strict=True):
            index = first + len(placed.sites)
            found = [run.site_of(parent, first) for parent in row.parents]
            phase = run.phase if row.site.phase == "forward" else row.site.phase
            placed.sites.append(
                dataclasses.replace(
                    row.site,
                    index=index,
                    parents=tuple(parent for parent in found if parent is not None),
                    shape=shape,
                    phase=phase,
                )
            )
            if row.follows:
                placed.following.add(index)
            elif row.again is not None and before is not None:
                placed.copies[index] = before + row.again
            elif row.change is not None:
                placed.changes[index] = row.change
        return placed
