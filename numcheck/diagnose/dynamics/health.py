# SPDX-License-Identifier: Apache-2.0
"""What an audited step shows of a training that will learn badly, as notes.

Nothing is broken where these speak, and nothing need break: so they accuse nothing.
"""

from __future__ import annotations

import math
import re
import statistics
from typing import TYPE_CHECKING, Final

from numcheck.diagnose.dynamics.growing import growth_notes
from numcheck.diagnose.dynamics.note import note
from numcheck.diagnose.history import series
from numcheck.diagnose.triage.gradients import gradients_of
from numcheck.record.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.diagnose.finding import Field, Finding
    from numcheck.diagnose.incident import Incident
    from numcheck.measure.summary import Summary

__all__ = ["health_notes"]

_TANH: Final = re.compile(r"\b(tanh|tanh_)\b")
_SIGMOID: Final = re.compile(r"\b(sigmoid|sigmoid_|logistic)\b")
_ROOM: Final = 0.05
"""Mean slope, as a share of the largest, below which a layer passes next to nothing."""
_LAYERS: Final = 2
_VANISHED: Final = 1e-6
"""Ratio of root mean squares: at equal learning rates the layer stands still."""
_TIMES: Final = 10.0
_CALM: Final = 3.0
_BEFORE: Final = 8


def health_notes(incident: Incident) -> tuple[Finding, ...]:
    """Return notes on saturated layers, vanished gradients, spikes, and growth."""
    found = (*_saturated(incident), *_vanished(incident), *_spiked(incident))
    return (*found, *growth_notes(incident))


def _saturated(incident: Incident) -> Iterator[Finding]:
    """Answer where most layers of a stack sit on the flat ends of their function."""
    view = incident.view
    rooms: list[tuple[float, Site]] = []
    for site in view.trace.sites:
        held = view.summary(site)
        if site.kind == "operator" and site.phase == "forward" and held is not None:
            room = _room(site, held)
            if room is not None:
                rooms.append((room, site))
    flat = [(room, site) for room, site in rooms if room < _ROOM]
    if len(flat) < _LAYERS or 2 * len(flat) < len(rooms):
        return
    room, site = min(flat, key=lambda pair: pair[0])
    fields: dict[str, Field] = {"layers": len(flat), "of": len(rooms), "room": room}
    advice = ("standard_initialisation", "add_normalisation")
    yield note(incident, "N715", site, fields, "saturated_layers", advice)


def _room(site: Site, held: Summary) -> float | None:
    """Return the mean slope of a saturating function as a share of its largest."""
    if not held.finite or held.total_sq is None or held.is_finite is False:
        return None
    if _TANH.search(site.op):
        return max(0.0, 1 - held.total_sq / held.finite)
    if _SIGMOID.search(site.op) and held.total is not None:
        return max(0.0, 4 * (held.total - held.total_sq) / held.finite)
    return None


def _vanished(incident: Incident) -> Iterator[Finding]:
    """Answer where a weight's gradient is next to nothing beside another's."""
    view = incident.view
    sizes: dict[str, tuple[float, Site]] = {}
    for name, site in gradients_of(view).items():
        held = view.summary(site)
        if len(site.shape) < 2 or held is None or not held.finite:
            continue
        if held.total_sq is not None and held.is_finite is not False:
            sizes[name] = math.sqrt(held.total_sq / held.finite), site
    alive = {name: pair for name, pair in sizes.items() if pair[0] > 0}
    if len(alive) < 2:
        return
    low = min(alive, key=lambda name: alive[name][0])
    high = max(alive, key=lambda name: alive[name][0])
    ratio = alive[low][0] / alive[high][0]
    if ratio >= _VANISHED:
        return
    fields: dict[str, Field] = {
        "low": low,
        "smallest": alive[low][0],
        "high": high,
        "largest": alive[high][0],
    }
    advice = ("standard_initialisation", "add_normalisation")
    yield note(incident, "N714", alive[low][1], fields, "vanished", advice)


def _spiked(incident: Incident) -> Iterator[Finding]:
    """Answer where the loss jumped to many times its usual value and came back."""
    losses = [(s, v) for s, v in series(incident.history, "loss") if math.isfinite(v)]
    spikes: list[tuple[int, float, float]] = []
    for place in range(_BEFORE, len(losses) - 1):
        usual = statistics.median(v for _, v in losses[place - _BEFORE : place])
        step, value = losses[place]
        after = losses[place + 1][1]
        if usual > 0 and value >= _TIMES * usual and after <= _CALM * usual:
            spikes.append((step, value, usual))
    if not spikes:
        return
    step, value, usual = max(spikes, key=lambda spike: spike[1] / spike[2])
    fields: dict[str, Field] = {
        "count": len(spikes),
        "step": step,
        "value": value,
        "usual": usual,
    }
    site = Site(0, "loss", "forward", kind="kept", role="loss")
    advice = ("clip_outliers", "clip_gradients", "warm_up")
    yield note(incident, "N716", site, fields, "loss_spiked", advice)
