# SPDX-License-Identifier: Apache-2.0
"""A loss scale too large for the format of the gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import OVERFLOWS, explain
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import is_low_precision

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Certainty
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["LossScale"]

_SMALLEST = 2.0**8  # multiplying a loss by less is a weight, not a scale


class LossScale:
    """The scaled gradient overflows where the unscaled one would not."""

    id = "N153"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for overflows in backward with a scale in play."""
        if broke.id not in OVERFLOWS or scene.site.phase != "backward":
            return None
        if scene.incident.went("float32") == "failed":
            return None
        scale = _scale(scene)
        if scale is None or not is_low_precision(scene.site):
            return None
        healed = scene.incident.went("float32") == "healthy"
        seen = Evidence("loss_scale", {"scale": scale})
        advice = ("dynamic_loss_scale", "smaller_loss_scale", "bfloat16")
        certainty: Certainty = "certain" if healed else "likely"
        return explain(self.id, "precision", certainty, seen, advice=advice)


def _scale(scene: Scene) -> float | None:
    """Return the factor by which the loss was scaled, as known or as seen."""
    known = scene.incident.settings.get("loss_scale")
    if isinstance(known, int | float) and known >= _SMALLEST:
        return float(known)
    factors = [
        abs(float(value))
        for site in scene.ancestry.operators(("mul",))
        if site.phase in ("forward", "backward")
        for name, value in site.detail
        if name.startswith("operand") and isinstance(value, int | float)
    ]
    large = [f for f in factors if f >= _SMALLEST]
    return max(large, default=None)
