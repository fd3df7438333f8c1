# SPDX-License-Identifier: Apache-2.0
"""An Inf or NaN gradient that a zero behind it wiped out, and all learning with it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from numcheck.diagnose.harm import harm_rank
from numcheck.diagnose.provenance import Origin

if TYPE_CHECKING:
    from numcheck.diagnose.provenance import Provenance
    from numcheck.record.site import Site

__all__ = ["smothered"]


def smothered(provenance: Provenance) -> tuple[Origin, ...]:
    """Return births in the backward run after which every gradient is exactly zero.

    A mask, or the slope of a relu at zero, turned the Inf into 0: nothing is NaN, and
    what lies behind does not learn from this step. One element off the mask, and the
    Inf arrives.
    """
    found = []
    for site in provenance.masked:
        if site.phase != "backward" or _is_guarded(provenance, site):
            continue
        behind = _gradients_behind(provenance, site)
        if behind and all(_is_zero(provenance, g) for g in behind):
            harm = tuple(sorted(behind, key=harm_rank))
            found.append(Origin(site, "birth", harm))
    return tuple(found)


def _is_guarded(provenance: Provenance, birth: Site) -> bool:
    """Whether the derivative that made it also replaces it, as that of a deviation."""
    of = dict(birth.detail).get("forward_op")
    sites, children = provenance.view.trace.sites, provenance.view.trace.children
    seen, queue, ends = {birth.index}, deque([birth.index]), []
    while queue:
        for child in children.get(queue.popleft(), ()):
            if child in seen:
                continue
            seen.add(child)
            if provenance.health.is_bad(child):
                queue.append(child)
            else:
                ends.append(dict(sites[child].detail).get("forward_op"))
    return of is not None and bool(ends) and all(end == of for end in ends)


def _gradients_behind(provenance: Provenance, site: Site) -> list[Site]:
    trace = provenance.view.trace
    seen, queue = {site.index}, deque([site.index])
    while queue:
        for child in trace.children.get(queue.popleft(), ()):
            if child not in seen:
                seen.add(child)
                queue.append(child)
    kept = (trace.sites[i] for i in sorted(seen))
    return [s for s in kept if s.kind == "kept" and s.role == "gradient"]


def _is_zero(provenance: Provenance, gradient: Site) -> bool:
    held = provenance.view.summary(gradient)
    return held is not None and held.is_all_zero is True
