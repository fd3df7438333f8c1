# SPDX-License-Identifier: Apache-2.0
"""A square or a power past the largest finite number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["PowerOverflow"]


class PowerOverflow:
    """A square or a higher power overflows."""

    id = "N107"

    def match(self, scene: Scene) -> Match | None:
        """Answer for squares and powers of finite operands."""
        if scene.site.family not in ("square", "pow") or scene.origin.kind != "birth":
            return None
        largest = scene.operand(0).amax
        return Match(self.id, evidence=measured("largest_operand", amax=largest))
