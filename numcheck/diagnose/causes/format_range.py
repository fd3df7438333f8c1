# SPDX-License-Identifier: Apache-2.0
"""The format's range or precision is too small for the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.ancestry import source_of
from numcheck.diagnose.causes.base import EDGES, OVERFLOWS, explain, tried
from numcheck.diagnose.causes.drift import ran_away
from numcheck.diagnose.causes.outlier_rows import carried_by_outliers
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import is_low_precision

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Advice, Certainty
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["FormatRange", "RoundedToEdge"]


class RoundedToEdge:
    """In low precision an operand rounds onto the point where its function ends."""

    id = "N154"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for poles that the step in float32 does not meet."""
        if broke.id not in EDGES | {"N307", "N313"}:
            return None
        if scene.incident.went("float32") != "healthy":
            return None
        advice = (tried("float32_step"), "float32_here", "stable_formula")
        seen = Evidence("edge_by_rounding", {"dtype": scene.site.dtype})
        return explain(self.id, "precision", "certain", seen, advice=advice)


class FormatRange:
    """The same step with more range does not overflow."""

    id = "N151"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for every failure that the step in float32 does not have."""
        went = scene.incident.went("float32")
        if carried_by_outliers(scene):
            return None
        if went == "healthy" and not ran_away(scene):
            return explain(self.id, "precision", "certain", advice=_advice(scene))
        if went is None and broke.id in OVERFLOWS and is_low_precision(scene.site):
            fits = scene.incident.went("operator_wider") == "healthy"
            certainty: Certainty = "likely" if fits else "possible"
            advice = ("float32_here", "bfloat16", "rescale")
            return explain(self.id, "precision", certainty, advice=advice)
        return None


def _advice(scene: Scene) -> tuple[str | Advice, ...]:
    """Return what to change for values that fit in float32, what was tried first."""
    incident = scene.incident
    steps: list[str | Advice] = ["float32_here"]
    if _converts_the_batch(scene):
        steps.insert(0, "normalise_inputs")
    if incident.went("bfloat16") == "healthy":
        steps.append(tried("bfloat16"))
    else:
        steps.append(tried("float32_step"))
        if incident.went("bfloat16") is None and scene.site.dtype != "bfloat16":
            steps.append("bfloat16")
    steps.append("rescale")
    if incident.went("initial_parameters") == "healthy":
        # The values fitted at first: what made them grow is worth a look too.
        steps += ["smaller_learning_rate", "warm_up"]
    return tuple(steps)


def _converts_the_batch(scene: Scene) -> bool:
    """Whether it is the batch itself that does not fit, before any arithmetic."""
    site = scene.operand(0).site
    given = None if site is None else source_of(scene.provenance.view, site)
    return scene.site.effect == "cast" and given is not None and given.role == "input"
