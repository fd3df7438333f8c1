# SPDX-License-Identifier: Apache-2.0
"""Notes on what grows: embeddings, deep stacks, a loss at the first steps."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Final

from numcheck.diagnose.deep_stack import growing_stack
from numcheck.diagnose.dynamics.note import note
from numcheck.diagnose.dynamics.samples import EMBEDDING, embeddings
from numcheck.diagnose.first_steps import thrown
from numcheck.diagnose.history import series
from numcheck.diagnose.line import fitted
from numcheck.diagnose.load import format_of, headroom_bits
from numcheck.record.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.diagnose.finding import Field, Finding
    from numcheck.diagnose.incident import Incident

__all__ = ["growth_notes"]

_SAMPLES: Final = 4
_DOUBLED: Final = 2.0
_STRAIGHT: Final = 0.9
_TIMES: Final = 10.0


def growth_notes(incident: Incident) -> tuple[Finding, ...]:
    """Return notes on growing embeddings, growing stacks and a violent start."""
    return (*_embeddings(incident), *_stack(incident), *_start(incident))


def _embeddings(incident: Incident) -> Iterator[Finding]:
    """Answer where an embedding's norm rose at every sample, and doubled at least."""
    for name, site in embeddings(incident.view).items():
        found = series(incident.history, f"{EMBEDDING}{name}")
        if len(found) < _SAMPLES or not found[0][1] > 0:
            continue
        first, last = found[0], found[-1]
        rises = all(b > a for (_, a), (_, b) in itertools.pairwise(found))
        logs = [(step, math.log2(value)) for step, value in found if value > 0]
        lines = [line for line in (fitted(found), fitted(logs)) if line is not None]
        steady = any(line.explained >= _STRAIGHT for line in lines)
        if not (rises and steady) or last[1] < _DOUBLED * first[1]:
            continue
        steps = last[0] - first[0]
        fields: dict[str, Field] = {
            "name": name,
            "first": first[1],
            "last": last[1],
            "steps": steps,
            "per_hundred": 100 * (last[1] - first[1]) / steps,
        }
        advice = ("weight_decay", "add_normalisation", "smaller_learning_rate")
        yield note(incident, "N717", site, fields, "embedding_grew", advice)


def _stack(incident: Incident) -> Iterator[Finding]:
    """Answer where as many layers again would overflow, and nothing normalises."""
    view = incident.view
    products = [
        site
        for site in view.trace.sites
        if site.phase == "forward" and site.family in ("matmul", "conv")
    ]
    if not products:
        return
    last = products[-1]
    limit, bits = format_of(last), headroom_bits(last, view.summary(last))
    if limit is None or bits is None or 2 * bits > math.log2(limit.max):
        return
    grown = growing_stack(view, last)
    if grown is not None:
        advice = ("add_normalisation", "standard_initialisation")
        fields = {**grown.fields, "bits": bits}
        yield note(incident, "N718", last, fields, grown.key, advice)


def _start(incident: Incident) -> Iterator[Finding]:
    """Answer where the first updates multiplied the loss before it came back."""
    found = thrown(incident.history, _TIMES)
    if found is None:
        return
    fields: dict[str, Field] = {
        "first": found.first,
        "peak": found.peak,
        "ratio": found.ratio,
        "rate": found.rate,
    }
    site = Site(0, "loss", "forward", kind="kept", role="loss")
    advice = ("warm_up", "smaller_learning_rate")
    yield note(incident, "N719", site, fields, "no_warm_up", advice)
