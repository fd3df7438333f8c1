# SPDX-License-Identifier: Apache-2.0
"""A softmax row in which every entry is -Inf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["MaskedSoftmax"]

_WHOLE = ("softmax", "log_softmax", "logsumexp", "attention")
_REACH = 4  # operators between the subtraction of the maximum and its exponential


class MaskedSoftmax:
    """A softmax over entries that are all masked with -Inf: -Inf - (-Inf)."""

    id = "N307"

    def match(self, scene: Scene) -> Match | None:
        """Answer for softmaxes, whole or written out, that make a NaN of -Inf."""
        if scene.kind != "nan":
            return None
        masked = any(o.has_inf for o in scene.operands)
        if scene.site.family in _WHOLE and masked:
            return Match(self.id, evidence=measured("operand_inf"))
        if scene.site.family in ("sub", "add") and masked and _feeds_exp(scene):
            return Match(self.id, evidence=measured("operand_inf"))
        return None


def _feeds_exp(scene: Scene) -> bool:
    """Whether an exponential is taken of the result within a few operators."""
    trace = scene.provenance.view.trace
    front = {scene.site.index}
    for _ in range(_REACH):
        front = {c for i in front for c in trace.children.get(i, ())}
        if any(trace.sites[c].family == "exp" for c in front):
            return True
    return False
