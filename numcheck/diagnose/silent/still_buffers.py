# SPDX-License-Identifier: Apache-2.0
"""Running averages and counters that no longer move in their own format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import format_of, is_low_precision
from numcheck.diagnose.silent.departed import Departed
from numcheck.diagnose.silent.stagnant import is_same

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.diagnose.finding import Field
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["still_buffers"]

_UPDATES: Final = ("add", "sub", "mul")
_ROLES: Final = ("buffer", "state")
_SHARE: Final = 0.25
"""Part of half a step of the format that float32 must move by. An average that has
arrived hardly moves in any format, and loses nothing by it."""


def still_buffers(view: StepView, departures: Mapping[int, float]) -> Departed | None:
    """Return the update that left a low-precision buffer just as it was, or None."""
    before: dict[str, Site] = {}
    for site in view.trace.sites:
        if site.kind == "source" and site.role in _ROLES:
            before.setdefault(site.op, site)
    found = [
        (departures.get(site.index, 0.0), site)
        for site in view.kept()
        if site.role in _ROLES
        and _is_still(view, before.get(site.op), site, departures)
    ]
    if not found:
        return None
    relative, worst = max(found, key=lambda pair: pair[0])
    fields: dict[str, Field] = {
        "name": worst.op,
        "dtype": worst.dtype,
        "relative": relative,
    }
    still = tuple(site for _, site in found)
    return Departed(
        _update(view, worst),
        "stagnation",
        (Evidence("buffer_frozen", fields),),
        (worst, *(site for site in still if site is not worst)),
        frozenset(site.index for site in still),
    )


def _is_still(
    view: StepView, old: Site | None, site: Site, departures: Mapping[int, float]
) -> bool:
    limit = format_of(site)
    if old is None or limit is None or not is_low_precision(site):
        return False
    was, now = view.summary(old), view.summary(site)
    if was is None or now is None or not is_same(was, now):
        return False
    least = _SHARE * float(limit.unit_roundoff)
    update = _update(view, site)
    is_update = update.family in _UPDATES
    if site.role == "state" and not _adds_to(view, update, old):
        # An optimizer's average of squares is there to be divided by: too slow in few
        # bits it still does that, and what it harms is told by the parameters.
        return False
    return is_update and departures.get(site.index, 0.0) >= least


def _update(view: StepView, kept: Site) -> Site:
    """Return the operator that gave a kept buffer its value."""
    site = kept
    while site.kind == "kept" or site.effect in ("move", "cast"):
        if not site.parents:
            break
        site = view.trace.sites[site.parents[0]]
    return site


def _adds_to(view: StepView, update: Site, old: Site) -> bool:
    """Whether an update adds to what was there, as counters and plain sums do."""
    if update.family not in ("add", "sub"):
        return False
    for parent in view.parents(update):
        site = parent
        while site.effect in ("move", "cast") and len(site.parents) == 1:
            site = view.trace.sites[site.parents[0]]
        if site.index == old.index:
            return True
    return False
