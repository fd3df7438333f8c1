# SPDX-License-Identifier: Apache-2.0
"""Inputs that were never brought to scale one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.ancestry import source_of
from numcheck.diagnose.causes.base import OVERFLOWS, explain
from numcheck.diagnose.dropped import is_dropped
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.gain import largest_gain
from numcheck.diagnose.outliers import largest_input

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene
    from numcheck.record.site import Site

__all__ = ["Unnormalised", "UnnormalisedTraining"]

_STABLE = 2.0
_ORDINARY_GAIN = 4.0


class UnnormalisedTraining:
    """Inputs out of scale make ordinary learning rates diverge."""

    id = "N056"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for steps that only drifted because the inputs are so large.

        Plain gradient descent on a layer of fan-in n is stable up to a learning rate
        of about 2 / (n·x²): what is stable at x = 1 and not at this x is the data's
        fault.
        """
        incident = scene.incident
        if incident.step == 0 or broke.id not in OVERFLOWS:
            return None
        if incident.went("initial_parameters") != "healthy":
            return None
        sources = scene.ancestry.sources("input")
        scale = largest_input(scene.provenance.view, sources)
        if scale is None or not scale.is_unnormalised:
            return None
        if not _is_multiplied(scene, scale.site):
            return None
        rate = incident.settings.get("lr")
        fan_in = scale.site.shape[-1] if scale.site.shape else 1
        if isinstance(rate, int | float) and rate * fan_in >= _STABLE:
            return None
        seen = Evidence("input_scale", {"op": scale.site.op, "amax": scale.amax})
        advice = ("normalise_inputs", "smaller_learning_rate")
        return explain(self.id, "data", "likely", seen, advice=advice)


def _is_multiplied(scene: Scene, data: Site) -> bool:
    """Whether an input enters a product with weights as it came: it is a feature."""
    view = scene.provenance.view
    return any(
        source_of(view, parent) == data
        for product in scene.ancestry.operators(("matmul", "conv"))
        for parent in view.parents(product)
    )


class Unnormalised:
    """Raw pixels, prices or timestamps meet ordinary weights."""

    id = "N056"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for overflows with large inputs, while the weights do not amplify."""
        if broke.id not in OVERFLOWS or is_dropped(scene):
            return None
        view, behind = scene.provenance.view, scene.ancestry
        scale = largest_input(view, behind.sources("input"))
        if scale is None or not scale.is_unnormalised:
            return None
        if largest_gain(view, behind.operators(("matmul", "conv"))) > _ORDINARY_GAIN:
            return None
        seen = Evidence("input_scale", {"op": scale.site.op, "amax": scale.amax})
        advice = ("normalise_inputs", "clip_outliers")
        return explain(self.id, "data", "likely", seen, advice=advice)
