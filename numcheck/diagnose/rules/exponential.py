# SPDX-License-Identifier: Apache-2.0
"""An exponential past the largest finite number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Exponential"]


class Exponential:
    """exp, expm1, sinh, cosh and the like overflow."""

    id = "N104"

    def match(self, scene: Scene) -> Match | None:
        """Answer for exponentials of finite operands."""
        if scene.site.family != "exp" or scene.origin.kind != "birth":
            return None
        high = scene.operand(0).high
        return Match(self.id, evidence=measured("exponent", high=high))
