# SPDX-License-Identifier: Apache-2.0
"""Logarithm of zero or of a negative number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Logarithm"]


class Logarithm:
    """log gives -Inf at zero and NaN below."""

    id = "N301"

    def match(self, scene: Scene) -> Match | None:
        """Answer for logarithms of finite operands."""
        if scene.site.family != "log" or scene.origin.kind != "birth":
            return None
        operand = scene.operand(0)
        if scene.kind == "nan":
            return Match(
                self.id, evidence=measured("operand_negative", low=operand.low)
            )
        return Match(self.id, evidence=measured("operand_zero"))
