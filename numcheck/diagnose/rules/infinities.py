# SPDX-License-Identifier: Apache-2.0
"""Operations on infinities that have no value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["DifferenceOfInfinities", "ZeroTimesInfinity"]


class ZeroTimesInfinity:
    """0 * Inf has no value; a mask by multiplication meets it."""

    id = "N306"

    def match(self, scene: Scene) -> Match | None:
        """Answer for products with an infinity written on purpose."""
        if scene.kind != "nan" or scene.site.family not in ("mul", "matmul", "conv"):
            return None
        if not any(o.has_inf for o in scene.operands) and not scene.site.literals:
            return None
        return Match(self.id, evidence=measured("operand_inf"))


class DifferenceOfInfinities:
    """Inf - Inf has no value."""

    id = "N305"

    def match(self, scene: Scene) -> Match | None:
        """Answer for sums and differences of infinities."""
        families = ("add", "sub", "sum", "mean", "cumulative", "variance", "norm")
        if scene.kind != "nan" or scene.site.family not in families:
            return None
        if not any(o.has_inf for o in scene.operands) and not scene.site.literals:
            return None
        return Match(self.id, evidence=measured("operand_inf"))
