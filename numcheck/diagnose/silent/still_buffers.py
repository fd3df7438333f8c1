# SPDX-License-Identifier: Apache-2.0
"""Running averages and counters that no longer move in their own format."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import format_of, is_low_precision
from numcheck.diagnose.silent.departed import Departed
from numcheck.diagnose.silent.stagnant import is_same

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.diagnose.finding import Field
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Family, Site
    from numcheck.record.trace import StepView

__all__ = ["still_buffers"]

_UPDATES: Final = ("add", "sub", "mul")
_ROLES: Final = ("buffer", "state")
_SHARE: Final = 0.25
"""Part of half a step of the format that float32 must move by. An average that has
arrived hardly moves in any format, and loses nothing by it."""
_HARDLY: Final = 0.25
"""Part of the move it missed that an array still made."""
_FAR: Final = 0.125
"""Distance, as a part of its value, at which an average has not arrived."""


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
        _made(view, worst),
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
    if was is None or now is None:
        return False
    least = _SHARE * float(limit.unit_roundoff)
    update = _made(view, site)
    missed = departures.get(site.index, 0.0)
    is_far = missed >= _FAR * _rate(view, update)
    is_stuck = is_far and _reads(view, update, old, ("mul",))
    if not (is_same(was, now) or (is_stuck and _hardly_moved(was, now, missed))):
        return False
    if site.role == "state" and not _reads(view, update, old, ("add", "sub")):
        # An optimizer's average of squares is there to be divided by: too slow in few
        # bits it still does that, and what it harms is told by the parameters.
        return False
    return update.family in _UPDATES and (missed >= least or is_far)


def _hardly_moved(was: Summary, now: Summary, missed: float) -> bool:
    """Whether an array moved by far less than it should have: but for its small ones.

    Args:
        was: the array before.
        now: the array after.
        missed: the move that its format lost, relative to its size.
    """
    if was.total_sq is None or now.total_sq is None or not was.total_sq:
        return False
    if was.total is None or now.total is None or was.amax != now.amax:
        return False
    size = math.sqrt(was.total_sq)
    by_size = abs(now.total_sq - was.total_sq) / was.total_sq
    by_mean = abs(now.total - was.total) / (size * math.sqrt(was.n))
    return max(by_size, by_mean) <= _HARDLY * missed


def _rate(view: StepView, update: Site) -> float:
    """Return the part of its distance that an average goes at a time; 1 if not known.

    It is written as a plain number: in a lerp, or as what a product keeps of the old
    value or takes of the new one, before that is converted.
    """
    rates = [1.0]
    for site in (update, *(_made(view, p) for p in view.parents(update))):
        for name, value in site.detail:
            is_factor = name.startswith("operand") or name == "alpha"
            if is_factor and isinstance(value, float) and 0 < value < 1:
                rates.append(min(value, 1 - value))
    return min(rates)


def _made(view: StepView, value: Site) -> Site:
    """Return the operator that computed a value, before it was moved or converted."""
    site = value
    while site.kind == "kept" or site.effect in ("move", "cast"):
        if not site.parents:
            break
        site = view.trace.sites[site.parents[0]]
    return site


def _reads(
    view: StepView, update: Site, old: Site, families: tuple[Family, ...]
) -> bool:
    """Whether an update reads what was there, as counters, sums and a lerp do.

    A product and a sum of their own round twice: then a tremor is no standing still.
    """
    if update.family not in families:
        return False
    for parent in view.parents(update):
        site = parent
        while site.effect in ("move", "cast") and len(site.parents) == 1:
            site = view.trace.sites[site.parents[0]]
        if site.index == old.index:
            return True
    return False
