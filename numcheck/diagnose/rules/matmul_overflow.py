# SPDX-License-Identifier: Apache-2.0
"""A matrix product or convolution past the largest finite number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.rules.base import Match

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["MatmulOverflow"]


class MatmulOverflow:
    """Partial sums overflow; of both signs at once they even give NaN."""

    id = "N102"

    def match(self, scene: Scene) -> Match | None:
        """Answer for products, convolutions and attention of finite operands."""
        families = ("matmul", "conv", "attention")
        if scene.site.family not in families or scene.origin.kind != "birth":
            return None
        seen = Evidence("both_signs") if scene.kind in ("nan", "inf") else None
        return Match(self.id, evidence=() if seen is None else (seen,))
