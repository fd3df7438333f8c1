# SPDX-License-Identifier: Apache-2.0
"""One gradient far out of the ordinary, and nothing that bounds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain
from numcheck.diagnose.causes.drift import drifted, kept_positive
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.first_steps import jumped
from numcheck.diagnose.triage.gradients import scaled_by_norm

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["Unclipped"]


class Unclipped:
    """A single update of many times the usual size carried the training off."""

    id = "N761"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer where the gradient norm jumped just before, and none is clipped."""
        incident = scene.incident
        found, jump = drifted(scene, broke), jumped(incident.history)
        if found is None or jump is None:
            return None
        if "clip_norm" in incident.settings or scaled_by_norm(incident.view):
            return None
        seen = Evidence(
            "gradient_jumped",
            {"step": jump.step, "norm": jump.norm, "usual": jump.usual},
        )
        usual = ("clip_gradients", "clip_outliers", "smaller_learning_rate")
        advice = (*kept_positive(scene, broke), *usual)
        return explain(self.id, "dynamics", "likely", seen, *found[1], advice=advice)
