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
        if family == "loss" and _averages_over_labels(scene):
            return Match(self.id, evidence=measured("operands_finite"))
        if family not in ("mean", "variance") or not _counts_too_few(scene):
            return None
        return Match(self.id, evidence=measured("operands_finite"))


def _averages_over_labels(scene: Scene) -> bool:
    """Whether a loss had no valid label, or no element at all."""
    if scene.site.phase == "backward":
        return False
    first = scene.operand(0).summary
    is_empty = first is not None and first.n == 0
    return is_empty or any(word in scene.site.op for word in ("nll", "cross_entropy"))


def _counts_too_few(scene: Scene) -> bool:
    """Whether each average is over no element, or each variance over a single one."""
    operand, result = scene.operand(0), scene.summary
    if operand.summary is None or result is None:
        return False
    averaged = operand.summary.n // max(result.n, 1)
    return averaged <= (1 if scene.site.family == "variance" else 0)
