# SPDX-License-Identifier: Apache-2.0
"""Headroom that shrinks from sample to sample, and when it will run out."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING

from numcheck.diagnose.history import series
from numcheck.diagnose.line import fitted
from numcheck.diagnose.load import format_of, headroom_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.record.trace import Event, StepView

__all__ = ["PREFIX", "Drifting", "drifting", "tightest"]

PREFIX = "headroom "
_MOST = 16
_SAMPLES = 4
_STRAIGHT = 0.9
"""Share of the variance that the straight line must explain."""
_HORIZON = 200
"""Steps ahead within which running out is worth a warning."""


def tightest(view: StepView) -> dict[str, float]:
    """Return the smallest headrooms of a sampled step, in bits, by name.

    The names are stable from step to step, so that a monitor can note the values as
    scalars and `trends` can follow them. Values with more than half of their format's
    octaves free are left out.
    """
    met: Counter[str] = Counter()
    found: dict[str, float] = {}
    for site in view.trace.sites:
        if site.kind != "operator" or site.effect not in ("compute", "cast"):
            continue
        name = f"{PREFIX}{site.phase} {site.name}"
        met[name] += 1
        bits, limit = headroom_bits(site, view.summary(site)), format_of(site)
        if bits is None or limit is None or limit.kind != "float":
            continue
        if bits <= math.log2(limit.max) / 2:
            found[f"{name} {met[name]}"] = bits
    tight = sorted(found.items(), key=lambda item: item[1])[:_MOST]
    return dict(tight)


class Drifting:
    """A headroom on its way to zero.

    Attributes:
        name: which value, as `tightest` named it.
        bits: headroom at the last sample.
        per_hundred: change of the headroom in bits per 100 steps; negative.
        runs_out: step at which it reaches zero if it goes on like this.
    """

    def __init__(self, name: str, bits: float, per_step: float, step: int) -> None:
        """Extrapolate from the last sample."""
        self.name = name.removeprefix(PREFIX)
        self.bits = bits
        self.per_hundred = 100 * per_step
        self.runs_out = step + math.ceil(bits / -per_step)


def drifting(history: Sequence[Event], step: int) -> Drifting | None:
    """Return the value whose headroom will run out first, or None.

    Only a straight fall over several samples counts, and only when zero lies within
    the next 200 steps.
    """
    found: list[Drifting] = []
    for name in {e.name for e in history if e.name.startswith(PREFIX)}:
        samples = series(history, name)[-8:]
        line = fitted(samples)
        if len(samples) < _SAMPLES or line is None:
            continue
        falls = all(b < a for (_, a), (_, b) in itertools.pairwise(samples))
        if not falls or line.slope >= 0 or line.explained < _STRAIGHT:
            continue
        found.append(Drifting(name, samples[-1][1], line.slope, samples[-1][0]))
    soon = [d for d in found if d.runs_out - step <= _HORIZON]
    return min(soon, key=lambda d: (d.runs_out, d.name), default=None)
