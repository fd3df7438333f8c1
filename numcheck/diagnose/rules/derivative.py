# SPDX-License-Identifier: Apache-2.0
"""A derivative taken at the edge of its function's domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.poles import is_at_pole
from numcheck.diagnose.rules.base import Match

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Derivative"]


class Derivative:
    """The function is finite there, its slope is not: sqrt, norm, log, x**p at 0."""

    id = "N309"

    def match(self, scene: Scene) -> Match | None:
        """Answer for poles met while differentiating."""
        if scene.site.phase != "backward" or scene.origin.kind != "birth":
            return None
        if not is_at_pole(scene):
            return None
        forward = scene.fact("forward_op")
        fields = {"forward_op": str(forward or scene.site.op)}
        return Match(self.id, fields, (Evidence("at_pole", {"op": scene.site.op}),))
