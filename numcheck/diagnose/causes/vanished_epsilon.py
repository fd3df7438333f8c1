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
    from numcheck.record.trace import StepView

__all__ = ["VanishedEpsilon"]

_REACH = 6  # operators between adding the epsilon and dividing by the result
_WIDTH = 16  # operands of one level, of a sum of many terms
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
        wider = ("statistics_in_float32", "float32_master")
        advice = ("larger_epsilon", *(wider if is_low_precision(site) else ()))
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
    """Climb from the divisor or argument to the epsilon that was added to it.

    An average of squares has it in one of its terms.
    """
    view = scene.provenance.view
    start = (scene.denominator if scene.denominator.site else scene.operand(0)).site
    level = [] if start is None else [start]
    for _ in range(_REACH):
        operators = [site for site in level if site.kind == "operator"]
        found = next((site for site in operators if _is_zero_guard(site)), None)
        if found is not None:
            return found, _number(found) or 0.0
        level = [p for site in operators for p in _passed(view, site)][:_WIDTH]
    return None


def _is_zero_guard(site: Site) -> bool:
    """Whether a written number that the format rounds to zero is added here.

    A zero in full precision was written as one, and guards nothing.
    """
    number, limit = _number(site), format_of(site)
    if number is None or limit is None:
        return False
    if number == 0 and not is_low_precision(site):
        return False
    is_written = site.family == "add" or (site.family == "select" and number > 0)
    return is_written and 0 <= number <= limit.underflow_threshold


def _passed(view: StepView, site: Site) -> list[Site]:
    """Return the operands through which a guard would still act.

    Those are all terms of a sum, and what a number scales.
    """
    if site.effect not in ("move", "cast") and site.family not in _PASSES:
        return []
    read = list(view.parents(site))
    if site.family == "mul":
        read.sort(key=lambda parent: parent.shape != site.shape)
    return read if site.family == "add" else read[:1]


def _number(site: Site) -> float | None:
    """Return the plain number among an operator's operands."""
    for name, value in site.detail:
        if name.startswith(("operand", "eps", "min", "other")) and isinstance(
            value, int | float
        ):
            return float(value)
    return None
