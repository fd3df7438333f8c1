# SPDX-License-Identifier: Apache-2.0
"""An epsilon below the smallest number of the format it is added in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import EDGES, explain
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import format_of, is_low_precision

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Certainty
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene
    from numcheck.record.site import Site

__all__ = ["VanishedEpsilon"]

_REACH = 6  # operators between adding the epsilon and dividing by the result
_PASSES = ("add", "mul", "sqrt", "rsqrt", "reciprocal", "square", "select")


class VanishedEpsilon:
    """The guard against zero rounds to zero itself."""

    id = "N152"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for poles that float32 does not meet and an epsilon should avert."""
        if broke.id not in EDGES:
            return None
        went = scene.incident.went("float32")
        eps = _vanished(scene)
        if eps is None:
            return None
        site, value = eps
        # A constant that the program's own format rounded to zero before it ran stays
        # zero in float32; any other epsilon comes back there.
        if value > 0 and went == "failed":
            return None
        healed = went == "healthy"
        limit = format_of(site)
        smallest = 0.0 if limit is None else limit.smallest_subnormal
        key = "epsilon_vanished" if value > 0 else "epsilon_is_zero"
        seen = Evidence(key, {"eps": value, "dtype": site.dtype, "smallest": smallest})
        certainty: Certainty = "certain" if healed else "likely"
        advice = ("larger_epsilon", "statistics_in_float32", "float32_master")
        return explain(self.id, "precision", certainty, seen, advice=advice)


def _vanished(scene: Scene) -> tuple[Site, float] | None:
    """Return the addition of a number its format rounds to zero, and that number."""
    guard = _guard(scene)
    if guard is not None:
        return guard
    eps = scene.incident.settings.get("eps")
    limit = format_of(scene.site)
    if limit is None or not isinstance(eps, int | float):
        return None
    if scene.site.phase != "optimizer" or not is_low_precision(scene.site):
        return None
    return (scene.site, float(eps)) if 0 < eps <= limit.underflow_threshold else None


def _guard(scene: Scene) -> tuple[Site, float] | None:
    """Climb from the divisor or argument to the epsilon that was added to it."""
    view = scene.provenance.view
    at = (scene.denominator if scene.denominator.site else scene.operand(0)).site
    for _ in range(_REACH):
        if at is None or at.kind != "operator":
            return None
        number, limit = _number(at), format_of(at)
        if number is not None and limit is not None and is_low_precision(at):
            is_written = at.family == "add" or (at.family == "select" and number > 0)
            if is_written and 0 <= number <= limit.underflow_threshold:
                return at, number
        passes = at.effect in ("move", "cast") or at.family in _PASSES
        if not passes or not at.parents:
            return None
        at = view.trace.sites[at.parents[0]]
    return None


def _number(site: Site) -> float | None:
    """Return the plain number among an operator's operands."""
    for name, value in site.detail:
        if name.startswith(("operand", "eps", "min", "other")) and isinstance(
            value, int | float
        ):
            return float(value)
    return None
