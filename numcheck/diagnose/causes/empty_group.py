# SPDX-License-Identifier: Apache-2.0
"""A batch in which a group that is averaged over has no member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain
from numcheck.diagnose.finding import Evidence

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["EmptyGroup"]


class EmptyGroup:
    """The divisor is a count or a spread of the batch alone, and it is zero."""

    id = "N054"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for empty averages, and divisions by what the batch alone gives."""
        if broke.id == "N308":
            advice = ("count_at_least_one", "drop_empty_batches")
            return explain(self.id, "data", "likely", advice=advice)
        if broke.id not in ("N303", "N304") or scene.site.phase != "forward":
            return None
        behind = scene.ancestry_of(scene.denominator)
        if behind is None or not behind.is_from_batch:
            return None
        if not any(s.effect == "compute" for s in behind.sites if s.kind == "operator"):
            return None  # a number that was given is no count and no spread
        seen = Evidence("divisor_from_batch")
        guards = ("count_at_least_one", "drop_empty_batches", "std_at_least")
        return explain(self.id, "data", "likely", seen, advice=guards)
