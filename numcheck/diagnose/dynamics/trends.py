# SPDX-License-Identifier: Apache-2.0
"""Warnings before anything is NaN: what the history of a training says."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain
from numcheck.diagnose.causes.decay import decay_multiplied, too_strong
from numcheck.diagnose.causes.rate import too_high
from numcheck.diagnose.dynamics.headroom import drifting
from numcheck.diagnose.finding import Evidence, Finding
from numcheck.diagnose.first_steps import rose
from numcheck.diagnose.growth_watch import EXPLODES, IN_A_ROW
from numcheck.diagnose.history import series
from numcheck.record.site import Site

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Field
    from numcheck.diagnose.incident import Incident, Setting
    from numcheck.record.site import Phase
    from numcheck.record.trace import Event

__all__ = ["exploding", "trends"]

_FALLS = 4
_STILL_GROWS = 5.0
"""Least growth over the later half of what goes on growing: the rest fills up."""


def trends(incident: Incident) -> tuple[Finding, ...]:
    """Return warnings about where the training is heading.

    Only the incident's history and step are looked at. A trend is a fall or growth
    at every one of several steps, never a single spike.
    """
    known = incident.settings
    grown = exploding(incident.history, incident.step, incident.rank, known)
    found = (*grown, _spiral(incident), _drift(incident))
    return tuple(f for f in found if f is not None)


def exploding(
    history: Sequence[Event],
    step: int,
    rank: int = 0,
    settings: Mapping[str, Setting] | None = None,
) -> tuple[Finding, ...]:
    """Return a warning of a loss or gradient norm that multiplies step after step.

    Args:
        history: scalars of the steps before.
        step: the present one.
        rank: whose it is.
        settings: what is known of the optimizer.
    """
    for name, phase in _GROWING.items():
        signed = [v for _, v in _of_late(history, name)][-IN_A_ROW - 1 :]
        if len(signed) <= IN_A_ROW or not all(map(math.isfinite, signed)):
            continue
        if min(signed) < 0 < max(signed):
            continue
        window = [abs(v) for v in signed]
        pairs = itertools.pairwise(window)
        # What begins at zero has no factor, and what fills up soon grows by little.
        first, middle = window[0] or window[1], window[len(window) // 2]
        if any(b <= a for a, b in pairs) or window[-1] < EXPLODES * first:
            continue
        if window[-1] < _STILL_GROWS * middle:
            continue
        seen = Evidence(
            "grew",
            {
                "name": name,
                "first": first,
                "last": window[-1],
                "steps": len(window) - (1 if window[0] else 2),
            },
        )
        why = _why_it_grows(history, step, settings or {}, seen)
        site = Site(0, name, phase, kind="kept")
        return (_warning(step, rank, "N711", site, why, {"name": name}),)
    return ()


def _why_it_grows(
    history: Sequence[Event],
    step: int,
    settings: Mapping[str, Setting],
    seen: Evidence,
) -> Explanation:
    if decay_multiplied(settings, step):
        return too_strong(settings, "likely", (seen,))
    risen = rose(history)
    if risen is not None:
        return too_high(risen, "likely", (seen,))
    advice = ("smaller_learning_rate", "clip_gradients", "warm_up")
    return explain("N751", "dynamics", "likely", seen, advice=advice)


_GROWING: dict[str, Phase] = {"loss": "forward", "gradient_norm": "backward"}


def _spiral(incident: Incident) -> Finding | None:
    """Return a warning of a loss scale that only falls and passed below one.

    From 2**24 down to a few thousand is the search for a scale; below one no scale
    helps, and what overflows is no longer the scale's doing.
    """
    values = [v for _, v in _of_late(incident.history, "loss_scale")]
    changes = [(a, b) for a, b in itertools.pairwise(values) if a != b]
    last = changes[-_FALLS:]
    if len(last) < _FALLS or any(b > a for a, b in last) or values[-1] >= 1:
        return None
    seen = Evidence("scale_fell", {"first": values[0], "last": values[-1]})
    advice = ("find_the_overflow", "bfloat16")
    why = explain("N752", "dynamics", "likely", seen, advice=advice)
    site = Site(0, "loss_scale", "backward", kind="kept")
    return _warning(incident.step, incident.rank, "N712", site, why, {})


def _drift(incident: Incident) -> Finding | None:
    """Return a warning of a value that will overflow if it goes on like this."""
    found = drifting(incident.history, incident.step)
    if found is None:
        return None
    seen = Evidence(
        "headroom_falls",
        {
            "name": found.name,
            "bits": found.bits,
            "per_hundred": found.per_hundred,
            "step": found.runs_out,
        },
    )
    advice = ("add_normalisation", "weight_decay", "smaller_learning_rate")
    why = explain("N758", "dynamics", "likely", seen, advice=advice)
    phase, _, name = found.name.partition(" ")
    phases: dict[str, Phase] = {
        "forward": "forward",
        "backward": "backward",
        "recompute": "recompute",
        "optimizer": "optimizer",
    }
    at, name = phases.get(phase, "forward"), name.removesuffix(" 1")
    fields: dict[str, Field] = {"name": name, "step": found.runs_out}
    site = Site(0, name, at, kind="kept")
    return _warning(incident.step, incident.rank, "N713", site, why, fields)


def _of_late(history: Sequence[Event], name: str) -> list[tuple[int, float]]:
    return series(history, name)[-64:]


def _warning(
    step: int,
    rank: int,
    rule: str,
    site: Site,
    why: Explanation,
    fields: Mapping[str, Field],
) -> Finding:
    return Finding(
        id=rule,
        severity="warning",
        site=site,
        step=step,
        kind="drift",
        rank=rank,
        fields=fields,
        evidence=why.evidence,
        cause=why.cause,
        help=why.help,
    )
