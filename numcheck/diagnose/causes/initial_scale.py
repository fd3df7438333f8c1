# SPDX-License-Identifier: Apache-2.0
"""Weights initialised too large for the depth of the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import OVERFLOWS, explain
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.gain import largest_gain
from numcheck.diagnose.moved import has_moved
from numcheck.diagnose.series import layers_before

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["InitialScale"]

_GAIN = 8.0  # He and Xavier give 1 to 1.5
_RUNGS = 4
_FACTOR = 2.0
_RISING = 0.75


class InitialScale:
    """Activations grow by a factor from layer to layer at the first step already."""

    id = "N754"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for overflows with products that grow along the way."""
        initial = scene.incident.went("initial_parameters")
        if broke.id not in OVERFLOWS or initial == "healthy":
            return None
        if initial is None and has_moved(scene.incident):
            return None
        seen = _growth(scene) or _amplification(scene)
        if seen is None:
            return None
        advice = ("standard_initialisation", "add_normalisation")
        return explain(self.id, "dynamics", "likely", seen, advice=advice)


def _growth(scene: Scene) -> Evidence | None:
    """Return how the products grow along the way, where they do."""
    ladder = layers_before(scene.provenance.view, scene.site)
    if ladder.rungs < _RUNGS or ladder.rising < _RISING:
        return None
    if ladder.factor < _FACTOR:
        return None
    fields = {"factor": ladder.factor, "layers": ladder.rungs}
    return Evidence("grows_by_layer", fields)


def _amplification(scene: Scene) -> Evidence | None:
    """Return the gain of the largest weights, where it is out of scale."""
    products = scene.ancestry.operators(("matmul", "conv"))
    gain = largest_gain(scene.provenance.view, products)
    return Evidence("weight_gain", {"gain": gain}) if gain >= _GAIN else None
