# SPDX-License-Identifier: Apache-2.0
"""Division by zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Division"]

_FAMILIES = ("div", "reciprocal", "rsqrt")


class Division:
    """x / 0 gives Inf, 0 / 0 gives NaN; a small divisor is an overflow instead."""

    id = "N303"

    def match(self, scene: Scene) -> Match | None:
        """Answer for divisions, reciprocals and reciprocal roots by zero."""
        if scene.site.family not in _FAMILIES or scene.origin.kind != "birth":
            return None
        if scene.kind == "nan":
            return Match("N304", evidence=measured("zero_by_zero"))
        if not scene.denominator.has_zero:
            return None
        return Match(self.id, evidence=measured("denominator_zero"))
