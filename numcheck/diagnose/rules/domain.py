# SPDX-License-Identifier: Apache-2.0
"""A function outside the set on which it is defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Domain"]


class Domain:
    """acos, asin, atanh, erfinv beyond one; sin and cos of an infinity."""

    id = "N311"

    def match(self, scene: Scene) -> Match | None:
        """Answer for functions defined on a bounded set, and angles without end."""
        if scene.site.family not in ("inverse_bounded", "trigonometric"):
            return None
        operand = scene.operand(0)
        return Match(self.id, evidence=measured("operand_outside", amax=operand.amax))
