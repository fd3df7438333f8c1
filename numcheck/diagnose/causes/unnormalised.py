# SPDX-License-Identifier: Apache-2.0
"""Inputs that were never brought to scale one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import OVERFLOWS, explain
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.gain import largest_gain
from numcheck.diagnose.outliers import largest_input

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["Unnormalised"]

_LARGE = 50.0
"""Magnitude from which an input is out of scale: standardised features stay below 10,
and exp overflows float32 at 88."""
_ORDINARY_GAIN = 4.0


class Unnormalised:
    """Raw pixels, prices or timestamps meet ordinary weights."""

    id = "N056"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for overflows with large inputs, while the weights do not amplify."""
        if broke.id not in OVERFLOWS:
            return None
        view, behind = scene.provenance.view, scene.ancestry
        scale = largest_input(view, behind.sources("input"))
        if scale is None or scale.amax < _LARGE:
            return None
        if largest_gain(view, behind.operators(("matmul", "conv"))) > _ORDINARY_GAIN:
            return None
        seen = Evidence("input_scale", {"op": scale.site.op, "amax": scale.amax})
        advice = ("normalise_inputs", "clip_outliers")
        return explain(self.id, "data", "likely", seen, advice=advice)
