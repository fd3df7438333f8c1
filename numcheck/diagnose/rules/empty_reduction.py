# SPDX-License-Identifier: Apache-2.0
"""A mean or variance over nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["EmptyReduction"]


class EmptyReduction:
    """An average gives NaN out of finite operands: it was taken over no element."""

    id = "N308"

    def match(self, scene: Scene) -> Match | None:
        """Answer for means, variances and losses that count what they average over."""
        if scene.kind != "nan" or scene.origin.kind != "birth":
            return None
        family = scene.site.family
        if family == "loss" and scene.site.phase != "backward":
            return Match(self.id, evidence=measured("operands_finite"))
        if family not in ("mean", "variance") or not _counts_too_few(scene):
            return None
        return Match(self.id, evidence=measured("operands_finite"))


def _counts_too_few(scene: Scene) -> bool:
    """Whether each average is over no element, or each variance over a single one."""
    operand, result = scene.operand(0), scene.summary
    if operand.summary is None or result is None:
        return False
    averaged = operand.summary.n // max(result.n, 1)
    return averaged <= (1 if scene.site.family == "variance" else 0)
