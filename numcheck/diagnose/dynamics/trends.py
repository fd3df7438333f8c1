# SPDX-License-Identifier: Apache-2.0
"""Warnings before anything is NaN: what the history of a training says."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain
from numcheck.diagnose.dynamics.headroom import drifting
from numcheck.diagnose.finding import Evidence, Finding
from numcheck.diagnose.history import series
from numcheck.record.site import Site

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import FaultKind, Field
    from numcheck.diagnose.incident import Incident
    from numcheck.record.site import Phase
    from numcheck.record.trace import Event

__all__ = ["trends"]

_IN_A_ROW = 8  # steps that must all grow
_TIMES = 1e3  # growth over those steps
_FALLS = 4


def trends(incident: Incident) -> tuple[Finding, ...]:
    """Return warnings about where the training is heading.

    Only the incident's history and step are looked at. A trend is a fall or growth
    at every one of several steps, never a single spike.
    """
    found = (_exploding(incident), _spiral(incident), _drift(incident))
    return tuple(f for f in found if f is not None)


def _exploding(incident: Incident) -> Finding | None:
    """Return a warning of a loss or gradient norm that multiplies step after step."""
    for name, phase in _GROWING.items():
        values = [abs(v) for _, v in _of_late(incident.history, name)]
        window = values[-_IN_A_ROW - 1 :]
        if len(window) <= _IN_A_ROW or not all(map(math.isfinite, window)):
            continue
        pairs = itertools.pairwise(window)
        if any(b <= a for a, b in pairs) or window[-1] < _TIMES * window[0]:
            continue
        seen = Evidence(
            "grew",
            {
                "name": name,
                "first": window[0],
                "last": window[-1],
                "steps": len(window) - 1,
            },
        )
        advice = ("smaller_learning_rate", "clip_gradients", "warm_up")
        why = explain("N751", "dynamics", "likely", seen, advice=advice)
        return _warning(incident, "N711", name, phase, "drift", why, {"name": name})
    return None


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
    return _warning(incident, "N712", "loss_scale", "backward", "drift", why, {})


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
    at = phases.get(phase, "forward")
    fields: dict[str, Field] = {"name": name, "step": found.runs_out}
    return _warning(incident, "N713", name, at, "drift", why, fields)


def _of_late(history: Sequence[Event], name: str) -> list[tuple[int, float]]:
    return series(history, name)[-64:]


def _warning(
    incident: Incident,
    rule: str,
    op: str,
    phase: Phase,
    kind: FaultKind,
    why: Explanation,
    fields: Mapping[str, Field],
) -> Finding:
    return Finding(
        id=rule,
        severity="warning",
        site=Site(0, op, phase, kind="kept"),
        step=incident.step,
        kind=kind,
        rank=incident.rank,
        fields=fields,
        evidence=why.evidence,
        cause=why.cause,
        help=why.help,
    )
