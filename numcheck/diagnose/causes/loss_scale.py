# SPDX-License-Identifier: Apache-2.0
"""A loss scale too large for the format of the gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import OVERFLOWS, explain, tried
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import is_low_precision
from numcheck.diagnose.loss_scaling import SMALLEST_SCALE, scale_in_play

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Advice, Certainty
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["LossScale"]


class LossScale:
    """The scaled gradient overflows where the unscaled one would not."""

    id = "N153"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for overflows in backward with a scale in play."""
        if broke.id not in OVERFLOWS or scene.site.phase != "backward":
            return None
        unscaled = scene.incident.experiments.get("without_loss_scale")
        went = scene.incident.went("without_loss_scale")
        if went == "failed" or scene.incident.went("float32") == "failed":
            return None
        scale = _scale(scene)
        if scale is None or not is_low_precision(scene.site):
            return None
        seen = Evidence("loss_scale", {"scale": scale})
        advice: tuple[str | Advice, ...] = ("dynamic_loss_scale", "bfloat16")
        if unscaled is not None and went == "healthy":
            largest = unscaled.fields["largest"]
            advice = (tried("loss_scale_of", scale=largest), *advice)
        else:
            advice = (*advice, "smaller_loss_scale")
        healed = "healthy" in (went, scene.incident.went("float32"))
        certainty: Certainty = "certain" if healed else "likely"
        return explain(self.id, "precision", certainty, seen, advice=advice)


def _scale(scene: Scene) -> float | None:
    """Return the factor by which the loss was scaled, as known or as seen."""
    known = scale_in_play(scene.incident)
    if known is not None:
        return known
    factors = [
        abs(float(value))
        for site in scene.ancestry.operators(("mul",))
        if site.phase in ("forward", "backward")
        for name, value in site.detail
        if name.startswith("operand") and isinstance(value, int | float)
    ]
    return max((f for f in factors if f >= SMALLEST_SCALE), default=None)
