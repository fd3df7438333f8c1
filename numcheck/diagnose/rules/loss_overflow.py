# SPDX-License-Identifier: Apache-2.0
"""A loss past the largest finite number."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        largest = scene.largest_operand
        return Match(self.id, evidence=measured("largest_operand", amax=largest))
