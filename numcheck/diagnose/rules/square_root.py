# SPDX-License-Identifier: Apache-2.0
"""Square root of a negative number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["SquareRoot"]


class SquareRoot:
    """sqrt and rsqrt give NaN below zero."""

    id = "N302"

    def match(self, scene: Scene) -> Match | None:
        """Answer for roots that give NaN out of finite operands."""
        if scene.site.family not in ("sqrt", "rsqrt") or scene.kind != "nan":
            return None
        low = scene.operand(0).low
        return Match(self.id, evidence=measured("operand_negative", low=low))
