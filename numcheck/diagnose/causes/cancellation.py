# SPDX-License-Identifier: Apache-2.0
"""A difference of nearly equal numbers of which only rounding errors are left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.health import is_floating
from numcheck.diagnose.load import format_of, is_low_precision

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Certainty
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["Cancellation"]

_REACH = 4  # operators between the difference and the function it is fed to
_NOISE = 64.0  # units of roundoff of the operands below which a difference is noise


class Cancellation:
    """E[x²] − E[x]² and the like turn negative by rounding alone."""

    id = "N452"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for functions of a negative number that a cancellation left."""
        if broke.id in ("N303", "N304"):
            return _of_rounded_integers(scene)
        if broke.id not in ("N301", "N302", "N312"):
            return None
        lost = _lost_bits(scene)
        if lost is None:
            return None
        certainty: Certainty = (
            "certain" if scene.incident.went("float64") == "healthy" else "likely"
        )
        seen = Evidence("cancelled", {"bits": lost})
        advice = ["variance_formula", "clamp_argument"]
        if scene.incident.went("float64") == "failed":
            advice.reverse()
        if is_low_precision(scene.site):
            advice.insert(1, "float32_here")
        return explain(self.id, "precision", certainty, seen, advice=tuple(advice))


def _lost_bits(scene: Scene) -> float | None:
    """Return the bits that the difference upstream lost; None without such noise."""
    low = scene.operand(0).low
    if low is None or low >= 0:
        return None
    view = scene.provenance.view
    for site in scene.ancestry.sites[: 2 * _REACH]:
        limit = format_of(site)
        adds = site.family in ("sub", "add") or "addcmul" in site.op
        if site.kind != "operator" or not adds or not limit:
            continue
        held = [view.summary(p) for p in site.parents]
        amaxes = [s.amax for s in held if s is not None and s.amax]
        if len(amaxes) < 2:
            continue
        if -low <= _NOISE * limit.unit_roundoff * min(amaxes):
            return math.log2(min(amaxes)) - math.log2(-low)
    return None


def _of_rounded_integers(scene: Scene) -> Explanation | None:
    """Answer where a divisor is the difference of rounded integers.

    Timestamps of 1.7e9 that lie less than a minute apart are equal in float32.
    """
    behind = scene.ancestry_of(scene.denominator)
    if behind is None or not scene.denominator.has_zero:
        return None
    view = scene.provenance.view
    if not any(s.family == "sub" for s in behind.sites[:_REACH]):
        return None
    for site in behind.sites:
        limit = format_of(site)
        if site.effect != "cast" or limit is None or limit.kind != "float":
            continue
        for parent in view.parents(site):
            held = view.summary(parent)
            if is_floating(parent.dtype) or held is None or held.amax is None:
                continue
            if held.amax > 2.0**limit.precision:
                seen = Evidence("cancelled", {"bits": float(limit.precision)})
                advice = ("cast_after_difference", "float32_here")
                return explain("N452", "precision", "likely", seen, advice=advice)
    return None
