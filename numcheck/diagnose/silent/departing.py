# SPDX-License-Identifier: Apache-2.0
"""Where kept values first depart from what float32 gives."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import TYPE_CHECKING

from numcheck.diagnose.harm import harm_rank
from numcheck.diagnose.silent.departed import Departed
from numcheck.diagnose.silent.flushed import flushed
from numcheck.diagnose.silent.frozen import frozen
from numcheck.diagnose.silent.stagnant import stagnant
from numcheck.diagnose.silent.unresolved import unresolved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numcheck.diagnose.finding import Evidence, FaultKind
    from numcheck.diagnose.provenance import Provenance
    from numcheck.record.site import Site

__all__ = ["departed"]

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
    found: dict[int, Departed] = {}
    for site in sorted(hurt, key=harm_rank):
        seen, starts = _walk(provenance, departures, site)
        for index in sorted(starts):
            if index in found:
                known = found[index]
                harm = (*known.harm, site)
                found[index] = dataclasses.replace(known, harm=harm)
                continue
            how = _how(provenance, index)
            if how is not None:
                kind, evidence = how
                # A second moment that underflows is what its optimizer's epsilon
                # is for; it counts where it reaches a parameter.
                if kind == "underflow" and site.role == "state":
                    continue
                start = provenance.view.trace.sites[index]
                found[index] = Departed(start, kind, evidence, (site,), seen)
    lost = list(_one_for_each_place(found[i] for i in sorted(found)))
    still = None if lost else frozen(provenance.view, departures)
    return tuple(lost if still is None else [still])


def _walk(
    provenance: Provenance, departures: Mapping[int, float], kept: Site
) -> tuple[frozenset[int], set[int]]:
    """Return the departing sites upstream of `kept`, and where departing began."""
    sites = provenance.view.trace.sites
    seen, starts, queue = {kept.index}, set(), deque([kept.index])
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
    return flushed(view, site) or stagnant(view, site) or unresolved(view, site)


def _one_for_each_place(found: Iterable[Departed]) -> tuple[Departed, ...]:
    places: dict[tuple[object, ...], Departed] = {}
    for lost in found:
        places.setdefault((lost.site.op, lost.site.source, lost.kind), lost)
    return tuple(places.values())
