# SPDX-License-Identifier: Apache-2.0
"""A loss past the largest finite number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.load import format_of
from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["LossOverflow"]


class LossOverflow:
    """A loss, usually a square of a difference, overflows."""

    id = "N106"

    def match(self, scene: Scene) -> Match | None:
        """Answer for infinite losses of finite operands."""
        if scene.site.family != "loss" or scene.origin.kind != "birth":
            return None
        largest, limit = scene.largest_operand, format_of(scene.site)
        if largest is not None and limit is not None:
            terms = max((o.summary.n for o in scene.operands if o.summary), default=1)
            if largest**2 * terms < limit.max:
                return Match("N314", evidence=measured("largest_operand", amax=largest))
        return Match(self.id, evidence=measured("largest_operand", amax=largest))
