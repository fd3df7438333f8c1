# SPDX-License-Identifier: Apache-2.0
"""Division by zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.load import format_of
from numcheck.diagnose.rules.base import Match, measured

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Division"]

_FAMILIES = ("div", "reciprocal", "rsqrt")
_FUSED = ("normalisation", "norm")


class Division:
    """x / 0 gives Inf, 0 / 0 gives NaN; a small divisor is an overflow instead."""

    id = "N303"

    def match(self, scene: Scene) -> Match | None:
        """Answer for divisions, reciprocals and reciprocal roots by zero."""
        if scene.origin.kind != "birth":
            return None
        if _is_flat(scene):
            return Match("N304", evidence=measured("normalised_flat"))
        if scene.site.family not in _FAMILIES:
            return None
        if scene.kind == "nan":
            return Match("N304", evidence=measured("zero_by_zero"))
        if not scene.denominator.has_zero:
            return None
        return Match(self.id, evidence=measured("denominator_zero"))


def _is_flat(scene: Scene) -> bool:
    """Whether a normalisation in one operator divided a spread of zero by itself.

    An epsilon would keep its divisor from zero.
    """
    limit, epsilon = format_of(scene.site), scene.fact("eps")
    if scene.site.family not in _FUSED or scene.kind != "nan":
        return False
    if limit is None or not scene.squares_fit:
        return False
    is_kept = isinstance(epsilon, int | float) and epsilon >= limit.smallest_subnormal
    return not is_kept
