# SPDX-License-Identifier: Apache-2.0
"""Traces of single steps, put together into the trace of a run.

The k-th operator of a step is usually the k-th of the next one, but a branch, another
sequence length or an added parameter shifts the order. Sites are therefore matched by
what they are, and by their how-many-th occurrence among equals.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck.record.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site

__all__ = ["TraceHistory"]


class TraceHistory:
    """Collects one-step traces; `trace` is all of them together."""

    def __init__(self) -> None:
        """Start with nothing recorded."""
        self._sites: list[Site] = []
        self._index: dict[Hashable, int] = {}
        self._summaries: dict[tuple[int, int], dict[int, Summary]] = {}
        self._last: tuple[tuple[Site, ...], list[int]] | None = None

    def add(self, trace: Trace) -> list[int]:
        """Add a trace, and return for each of its sites the site's index here."""
        places = self._places(trace.sites)
        for key, held in trace.summaries.items():
            mine = self._summaries.setdefault(key, {})
            for i, summary in held.items():
                earlier = mine.get(places[i])
                # A step may be recorded cheaply as it runs and fully when replayed.
                mine[places[i]] = (
                    summary if earlier is None else summary.filled_from(earlier)
                )
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
