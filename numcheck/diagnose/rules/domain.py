# SPDX-License-Identifier: Apache-2.0
"""A function outside the set on which it is defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Domain"]

_ROUNDED = 1e-3  # beyond one by rounding, in float16 too


class Domain:
    """acos, asin, atanh, erfinv beyond one; sin of an infinity; poles of lgamma."""

    id = "N311"

    def match(self, scene: Scene) -> Match | None:
        """Answer for functions defined on a bounded set, and angles without end."""
        operand = scene.operand(0)
        if scene.site.family == "log" and scene.origin.kind == "birth":
            key = "operand_zero" if operand.has_zero else "operand_at_pole"
            return Match(self.id, evidence=measured(key))
        if scene.site.family not in ("inverse_bounded", "trigonometric"):
            return None
        if operand.amax is not None and 0 < operand.amax - 1 < _ROUNDED:
            beyond = measured("operand_just_beyond", excess=operand.amax - 1)
            return Match(self.id, evidence=beyond)
        return Match(self.id, evidence=measured("operand_outside", amax=operand.amax))
