# SPDX-License-Identifier: Apache-2.0
"""A deep stack of ordinary layers without a normalisation between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import OVERFLOWS, explain
from numcheck.diagnose.deep_stack import growing_stack
from numcheck.diagnose.moved import has_moved

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["UnnormalisedStack"]


class UnnormalisedStack:
    """Each layer is well scaled and adds a little: over the depth that is too much."""

    id = "N762"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for overflows at the end of a steady growth that nothing stops."""
        initial = scene.incident.went("initial_parameters")
        if broke.id not in OVERFLOWS or initial == "healthy":
            return None
        if initial is None and has_moved(scene.incident):
            return None
        seen = growing_stack(scene.provenance.view, scene.site)
        if seen is None:
            return None
        advice = ("add_normalisation", "standard_initialisation")
        return explain(self.id, "dynamics", "likely", seen, advice=advice)
