# SPDX-License-Identifier: Apache-2.0
"""A power outside its domain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numcheck.diagnose.load import format_of
from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Power"]


class Power:
    """0 to a negative power, or a negative number to a fractional one."""

    id = "N312"

    def match(self, scene: Scene) -> Match | None:
        """Answer for powers at zero or below."""
        if scene.site.family != "pow" or scene.origin.kind != "birth":
            return None
        base = scene.operand(0)
        if scene.kind == "nan" and base.has_negative:
            return Match(self.id, evidence=measured("operand_negative", low=base.low))
        exponent, limit = scene.operand(1), format_of(scene.site)
        if exponent.low is None and limit is not None:
            # An exponent that is not known: a large base overflows, a zero has a pole.
            is_large = base.amax is not None and base.amax > math.sqrt(limit.max)
            if is_large:
                return None
        if base.has_zero and (exponent.low is None or exponent.has_negative):
            return Match(self.id, evidence=measured("operand_zero"))
        return None
