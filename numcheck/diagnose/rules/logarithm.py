# SPDX-License-Identifier: Apache-2.0
"""Logarithm of zero or of a negative number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Logarithm", "has_poles"]

_POLES = re.compile(r"\b(lgamma|digamma|polygamma|logit)_?\b")


class Logarithm:
    """log gives -Inf at zero and NaN below."""

    id = "N301"

    def match(self, scene: Scene) -> Match | None:
        """Answer for logarithms of finite operands."""
        if scene.site.family != "log" or scene.origin.kind != "birth":
            return None
        if scene.kind != "nan" and has_poles(scene):
            return None
        operand = scene.operand(0)
        if scene.kind == "nan":
            return Match(
                self.id, evidence=measured("operand_negative", low=operand.low)
            )
        return Match(self.id, evidence=measured("operand_zero"))


def has_poles(scene: Scene) -> bool:
    """Whether a function kin to the logarithm has other poles than the one at zero."""
    return _POLES.search(scene.site.op) is not None
