# SPDX-License-Identifier: Apache-2.0
"""Arithmetic past the largest finite number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Overflow"]


class Overflow:
    """Whatever gives an Inf out of finite operands and has no pole there."""

    id = "N101"

    def match(self, scene: Scene) -> Match | None:
        """Answer for infinite results of finite operands."""
        if scene.kind == "nan" or scene.origin.kind != "birth":
            return None
        largest = scene.largest_operand
        return Match(self.id, evidence=measured("largest_operand", amax=largest))
