# SPDX-License-Identifier: Apache-2.0
"""What a run did: its sites and what each held at every recorded step and rank."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numcheck.measure.summary import Summary
    from numcheck.record.columns import SummaryColumns
    from numcheck.record.site import Site

    SummariesBySite = dict[int, Summary] | SummaryColumns

__all__ = ["Event", "StepView", "Trace", "TraceBuilder"]


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a step: a scalar that was read, or a note.

    Attributes:
        name: ``loss``, ``gradient_norm``, ``learning_rate``, ``loss_scale``,
            ``skipped``, ``note``….
        step: 0-based step.
        rank: process that saw it.
        value: the scalar, or a text.
    """

    name: str
    step: int
    value: float | str
    rank: int = 0


@dataclasses.dataclass(frozen=True)
class Trace:
    """Sites, data-flow edges (`Site.parents`), and summaries by (step, rank).

    Attributes:
        sites: in execution order; ``sites[i].index == i``.
        summaries: for each recorded (step, rank), the summary of each measured site,
            keyed by site index. A site that was not measured there is absent.
        events: scalars and notes in the order they came.
        meta: framework, versions, devices, configuration.
    """

    sites: tuple[Site, ...]
    summaries: Mapping[tuple[int, int], Mapping[int, Summary]]
    events: tuple[Event, ...] = ()
    meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def steps(self) -> tuple[int, ...]:
        """Recorded steps, ascending."""
        return tuple(sorted({step for step, _ in self.summaries}))

    @property
    def ranks(self) -> tuple[int, ...]:
        """Recorded ranks, ascending."""
        return tuple(sorted({rank for _, rank in self.summaries}))

    @functools.cached_property
    def children(self) -> Mapping[int, tuple[int, ...]]:
        """For each site index, the sites that read its value."""
        found: dict[int, list[int]] = {}
        for site in self.sites:
            for parent in site.parents:
                found.setdefault(parent, []).append(site.index)
        return {parent: tuple(sites) for parent, sites in found.items()}

    def at(self, step: int, rank: int = 0) -> StepView:
        """Return one step of one rank.

        Raises:
            KeyError: nothing was recorded for that step and rank.
        """
        return StepView(self, step, rank, self.summaries[step, rank])

    def runs_before(self, site: Site) -> int:
        """Return how often the operator of a site ran before it in the step."""
        return sum(
            s.op == site.op and s.output == site.output and s.kind == "operator"
            for s in self.sites[: site.index]
        )

    def _repr_html_(self) -> str:
        """Return how a notebook shows it; the report is found only when asked."""
        notebook = importlib.import_module("numcheck.report.notebook")
        shown: str = notebook.trace_html(self)
        return shown


@dataclasses.dataclass(frozen=True, slots=True)
class StepView:
    """One step of one rank of a trace."""

    trace: Trace
    step: int
    rank: int
    summaries: Mapping[int, Summary]

    def summary(self, site: Site | int) -> Summary | None:
        """Return what the site held, or None when it was not measured."""
        return self.summaries.get(site if isinstance(site, int) else site.index)

    def parents(self, site: Site) -> tuple[Site, ...]:
        """Return the sites whose values `site` read."""
        return tuple(self.trace.sites[i] for i in site.parents)

    def kept(self) -> tuple[Site, ...]:
        """Return the values the step handed back to the user."""
        return tuple(s for s in self.trace.sites if s.kind == "kept")


class TraceBuilder:
    """Collects the sites and summaries of one step while an adapter runs it."""

    def __init__(self, step: int, rank: int = 0) -> None:
        """Start an empty trace of one step of one rank."""
        self.step = step
        self.rank = rank
        self.sites: list[Site] = []
        self.summaries: SummariesBySite = {}
        self.events: list[Event] = []

    def add(self, site: Site, summary: Summary | None = None) -> int:
        """Append a site, giving it its index, and return that index."""
        index = len(self.sites)
        self.sites.append(dataclasses.replace(site, index=index))
        if summary is not None:
            self.summaries[index] = summary
        return index

    def measure(self, index: int, summary: Summary) -> None:
        """Attach what was measured at a site."""
        self.summaries[index] = summary

    def extend_parents(self, index: int, parents: Iterable[int]) -> None:
        """Add data-flow edges that became known after the site was added."""
        site = self.sites[index]
        merged = tuple(dict.fromkeys((*site.parents, *parents)))
        self.sites[index] = dataclasses.replace(site, parents=merged)

    def build(self, **meta: object) -> Trace:
        """Return the finished trace."""
        return Trace(
            sites=tuple(self.sites),
            summaries={(self.step, self.rank): self.summaries.copy()},
            events=tuple(self.events),
            meta=meta,
        )
