# SPDX-License-Identifier: Apache-2.0
"""A sum past the largest finite number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.rules.base import Match

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["ReductionOverflow"]

_FAMILIES = (
    "sum",
    "mean",
    "product",
    "cumulative",
    "norm",
    "variance",
    "normalisation",
)


class ReductionOverflow:
    """Every term is finite, their sum, product or sum of squares is not."""

    id = "N103"

    def match(self, scene: Scene) -> Match | None:
        """Answer for reductions of finite operands."""
        if scene.site.family not in _FAMILIES or scene.origin.kind != "birth":
            return None
        if _cannot_overflow(scene):
            return None
        operand = scene.operand(0)
        if operand.summary is None or operand.amax is None:
            return Match(self.id)
        terms = operand.summary.n // max(1, scene.summary.n if scene.summary else 1)
        seen = Evidence("terms", {"terms": max(terms, 1), "amax": operand.amax})
        return Match(self.id, evidence=(seen,))


def _cannot_overflow(scene: Scene) -> bool:
    """Whether it gave NaN though its sum of squares is far from the limit."""
    squares = scene.site.family in ("norm", "normalisation")
    return squares and scene.kind == "nan" and scene.squares_fit
