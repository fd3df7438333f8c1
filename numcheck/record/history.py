# SPDX-License-Identifier: Apache-2.0
"""Traces of single steps, put together into the trace of a run.

The k-th operator of a step is usually the k-th of the next one, but a branch, another
sequence length or an added parameter shifts the order. Sites are therefore matched by
what they are, and by their how-many-th occurrence among equals.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck.record.columns import SummaryColumns
from numcheck.record.thinning import chosen_steps, danger_of, together
from numcheck.record.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.thinning import Danger

__all__ = ["MOST_SUMMARIES", "TraceHistory"]

MOST_SUMMARIES = 400_000
"""Summaries that a monitor holds in memory: about 250 MB, in columns a tenth of it."""


class TraceHistory:
    """Collects one-step traces; `trace` is all of them together.

    Args:
        most: about how many summaries to hold. Where there would be more, steps of
            the older half go: of neighbours the one closest to overflow stays. All by
            default.

    Example:
        >>> from numcheck.measure.summary import Summary
        >>> from numcheck.record import Site, TraceBuilder
        >>> history = TraceHistory(most=40)
        >>> for step in range(100):
        ...     builder = TraceBuilder(step)
        ...     site = builder.add(Site(0, "exp", "forward"), Summary(n=1))
        ...     places = history.add(builder.build())
        >>> history.recorded, len(history.trace.steps) <= 40
        (100, True)
    """

    def __init__(self, most: int | None = None) -> None:
        """Start with nothing recorded."""
        self._most = most
        self._held = 0
        self._dropped = 0
        self._sites: list[Site] = []
        self._index: dict[Hashable, int] = {}
        self._summaries: dict[tuple[int, int], Mapping[int, Summary]] = {}
        self._rows: tuple[Mapping[int, int], list[int], dict[int, int]] | None = None
        self._last: tuple[tuple[Site, ...], list[int]] | None = None

    def add(self, trace: Trace) -> list[int]:
        """Add a trace, and return for each of its sites the site's index here."""
        places = self._places(trace.sites)
        for key, held in trace.summaries.items():
            earlier = self._summaries.get(key, {})
            self._held -= len(earlier)
            if isinstance(held, SummaryColumns) and not earlier:
                mine: Mapping[int, Summary] = self._moved(held, places)
            else:
                # A step may be recorded cheaply as it runs and fully when replayed.
                mine = _filled(earlier, held, places)
            self._summaries[key] = mine
            self._held += len(mine)
        if self._most is not None and self._held > self._most:
            self._thin_out(self._most)
        return places

    @property
    def sites(self) -> list[Site]:
        """All sites so far; only ever appended to."""
        return self._sites

    @property
    def trace(self) -> Trace | None:
        """The trace of all steps added; None when there is none."""
        if not self._summaries:
            return None
        return Trace(tuple(self._sites), dict(self._summaries))

    @property
    def recorded(self) -> int | None:
        """How many steps were added, where not all are held any more."""
        held = len({step for step, _ in self._summaries})
        return held + self._dropped if self._dropped else None

    def _thin_out(self, most: int) -> None:
        """Let go of steps of the older half, until a quarter of the room is free."""
        steps = sorted({step for step, _ in self._summaries})
        older = set(steps[: len(steps) // 2])
        past = {k: held for k, held in self._summaries.items() if k[0] in older}
        records = sum(map(len, past.values()))
        danger: dict[int, Danger] = {}
        for (step, _), held in past.items():
            danger[step] = together(danger_of(self._sites, held), danger.get(step))
        room = max(0, most * 3 // 4 - (self._held - records))
        gone = older - chosen_steps(danger, records, room)
        for key in past:
            if key[0] in gone:
                self._held -= len(self._summaries.pop(key))
        self._dropped += len(gone)

    def _moved(self, held: SummaryColumns, places: list[int]) -> SummaryColumns:
        """Return columns by the sites here; steps alike share what says which row."""
        if self._rows is None or not (
            self._rows[0] is held.rows and self._rows[1] is places
        ):
            rows = {places[site]: row for site, row in held.rows.items()}
            self._rows = held.rows, places, rows
        return held.placed(self._rows[2], places)

    def _places(self, sites: tuple[Site, ...]) -> list[int]:
        if self._last is not None and _is_repeated(self._last[0], sites):
            return self._last[1]
        seen: dict[Hashable, int] = {}
        places: list[int] = []
        for site in sites:
            identity = _identity(site)
            count = seen[identity] = seen.get(identity, 0) + 1
            place = self._index.setdefault((identity, count), len(self._sites))
            if place == len(self._sites):
                parents = tuple(places[p] for p in site.parents if p < len(places))
                moved = dataclasses.replace(site, index=place, parents=parents)
                self._sites.append(moved)
            places.append(place)
        self._last = (sites, places)
        return places


def _filled(
    earlier: Mapping[int, Summary], held: Mapping[int, Summary], places: list[int]
) -> dict[int, Summary]:
    """Return what was recorded of a step twice; what was seen last stands first."""
    mine = dict(earlier)
    for site, summary in held.items():
        place = places[site]
        known = mine.get(place)
        mine[place] = summary if known is None else summary.filled_from(known)
    return mine


def _is_repeated(last: tuple[Site, ...], sites: tuple[Site, ...]) -> bool:
    """Whether the sites of a step are, one by one, those of the last one."""
    if last is sites:
        return True
    return len(last) == len(sites) and all(
        a is b or _identity(a) == _identity(b) for a, b in zip(last, sites, strict=True)
    )


def _identity(site: Site) -> Hashable:
    """Return what makes a site the same from step to step; its shape may vary."""
    return (
        site.op,
        site.phase,
        site.kind,
        site.role,
        site.output,
        site.dtype,
        site.scope,
        site.source,
        site.iteration,
    )
