# SPDX-License-Identifier: Apache-2.0
"""Weights that no longer move: every update is below half a step of their format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import is_low_precision
from numcheck.diagnose.silent.departed import Departed
from numcheck.diagnose.silent.stagnant import is_same

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.diagnose.finding import Field
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["frozen"]

_MOST = 0.9
"""Share of the low-precision weights that must stand still. A norm's weights of 1.0
often do while the rest of a model learns."""


def frozen(view: StepView, departures: Mapping[int, float]) -> Departed | None:
    """Return the update that was lost in nearly all weights, or None.

    A weight stands still when nothing measured about it changed although it moves in
    the float32 shadow.
    """
    before: dict[str, Site] = {}
    for site in view.trace.sites:
        if site.kind == "source" and site.role == "parameter":
            before.setdefault(site.op, site)
    still: list[Site] = []
    moving = 0
    for site in view.kept():
        old = before.get(site.op)
        if site.role != "parameter" or old is None or not is_low_precision(site):
            continue
        if not departures.get(site.index, 0.0) > 0:
            continue
        was, now = view.summary(old), view.summary(site)
        if was is None or now is None:
            continue
        if is_same(was, now):
            if _moves(view, site):
                still.append(site)
        else:
            moving += now.n
    n = sum(s.n for site in still if (s := view.summary(site)) is not None)
    if not still or n < _MOST * (n + moving):
        return None
    largest = max(departures[s.index] for s in still)
    fields: dict[str, Field] = {
        "dtype": still[0].dtype,
        "n": n,
        "of": n + moving,
        "relative": largest,
    }
    update = _update(view, still[0])
    return Departed(
        update, "stagnation", (Evidence("frozen", fields),), tuple(still),
        frozenset(s.index for s in still),
    )  # fmt: skip


def _moves(view: StepView, kept: Site) -> bool:
    """Whether something other than zero was to be added.

    Where the gradient is zero in this format and rounding noise in float32, nothing
    was lost.
    """
    read = [view.summary(parent) for parent in view.parents(_update(view, kept))]
    return not any(held is not None and held.is_all_zero for held in read[1:])


def _update(view: StepView, kept: Site) -> Site:
    """Return the operator that gave a kept parameter its value."""
    site = kept
    while site.kind == "kept" or (site.effect == "move" and site.parents):
        if not site.parents:
            break
        site = view.trace.sites[site.parents[0]]
    return site
