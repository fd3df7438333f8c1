# SPDX-License-Identifier: Apache-2.0
"""An operation without a value for its operands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.rules.base import Match

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Invalid"]


class Invalid:
    """Whatever gives a NaN and fits no other rule."""

    id = "N313"

    def match(self, scene: Scene) -> Match | None:
        """Answer always: this rule is asked last."""
        key = (
            "operand_inf"
            if any(o.has_inf for o in scene.operands)
            else "operands_finite"
        )
        return Match(self.id, evidence=(Evidence(key),))
