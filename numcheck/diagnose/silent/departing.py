# SPDX-License-Identifier: Apache-2.0
"""Where kept values first depart from what float32 gives."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from numcheck.diagnose.harm import harm_rank
from numcheck.diagnose.silent.departed import Departed
from numcheck.diagnose.silent.flushed import flushed
from numcheck.diagnose.silent.frozen import frozen
from numcheck.diagnose.silent.saturated import saturated
from numcheck.diagnose.silent.stagnant import stagnant
from numcheck.diagnose.silent.still_buffers import still_buffers
from numcheck.diagnose.silent.unresolved import unresolved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numcheck.diagnose.finding import Evidence, FaultKind
    from numcheck.diagnose.provenance import Provenance
    from numcheck.record.site import Site

__all__ = ["departed"]

_MOST_STARTS = 32  # each costs one walk
_KEPT = 0.5  # relative L2 error: more than half of the value is wrong
_ON_THE_WAY = 0.25  # an operator that loses this much belongs to the story


def departed(
    provenance: Provenance,
    departures: Mapping[int, float],
    *,
    searches_scale: bool = False,
) -> tuple[Departed, ...]:
    """Return where kept values that depart were lost, earliest first."""
    hurt = [
        s
        for s in provenance.view.kept()
        if departures.get(s.index, 0.0) > _KEPT
        and not (searches_scale and provenance.health.is_bad(s.index))
    ]
    seen, starts = _walk(provenance, departures, hurt)
    found: list[Departed] = []
    for site in _first_of_each_place(provenance, starts):
        how = _how(provenance, site.index)
        if how is None:
            continue
        harm = _reached(provenance, seen, site, hurt)
        # A second moment that underflows is what its optimizer's epsilon is for; it
        # counts where it reaches a parameter.
        if how[0] == "underflow":
            harm = tuple(s for s in harm if s.role != "state")
        if harm:
            found.append(Departed(site, how[0], how[1], harm, seen))
    if found:
        return tuple(found)
    view = provenance.view
    still = frozen(view, departures) or still_buffers(view, departures)
    return () if still is None else (still,)


def _walk(
    provenance: Provenance, departures: Mapping[int, float], kept: Iterable[Site]
) -> tuple[frozenset[int], set[int]]:
    """Return the departing sites upstream of `kept`, and where departing began."""
    sites = provenance.view.trace.sites
    queue = deque(s.index for s in kept)
    seen, starts = set(queue), set()
    while queue:
        index = queue.popleft()
        upstream = [
            p for p in sites[index].parents if departures.get(p, 0.0) > _ON_THE_WAY
        ]
        if not upstream:
            starts.add(index)
        for parent in upstream:
            if parent not in seen:
                seen.add(parent)
                queue.append(parent)
    return frozenset(seen), starts


def _first_of_each_place(provenance: Provenance, starts: Iterable[int]) -> list[Site]:
    """Return one site for each operator of each line, in execution order."""
    places: dict[tuple[object, ...], Site] = {}
    for index in sorted(starts):
        site = provenance.view.trace.sites[index]
        if _how(provenance, index) is not None:
            places.setdefault((site.op, site.source, site.phase), site)
    return list(places.values())[:_MOST_STARTS]


def _reached(
    provenance: Provenance, through: frozenset[int], start: Site, hurt: Iterable[Site]
) -> tuple[Site, ...]:
    """Return the departing kept values downstream of `start`, most important first."""
    children = provenance.view.trace.children
    seen, queue = {start.index}, deque([start.index])
    while queue:
        for child in children.get(queue.popleft(), ()):
            if child not in seen and child in through:
                seen.add(child)
                queue.append(child)
    return tuple(sorted((s for s in hurt if s.index in seen), key=harm_rank))


def _how(
    provenance: Provenance, index: int
) -> tuple[FaultKind, tuple[Evidence, ...]] | None:
    """Return how the value was lost at a site; None where nothing shows it."""
    site = provenance.view.trace.sites[index]
    if site.kind != "operator":
        return None
    health = provenance.health
    if health.is_bad(index):
        held = provenance.view.summary(site)
        is_birth = not health.bad_parents(site) and health.is_real(index)
        return ((held.kind if held else None) or "inf", ()) if is_birth else None
    view = provenance.view
    ways = (flushed, saturated, stagnant, unresolved)
    return next((lost for way in ways if (lost := way(view, site)) is not None), None)
