# SPDX-License-Identifier: Apache-2.0
"""What to do about the mask of a fused attention kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["MaskMisused"]


class MaskMisused:
    """The kernel hides the keys that were meant to be seen, or all of them."""

    id = "N654"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for both findings about such masks."""
        del scene
        if broke.id == "N604":
            return explain(self.id, "op-domain", "likely", advice=("npu_mask",))
        if broke.id == "N605":
            advice = ("skip_empty_rows", "npu_mask")
            return explain("N353", "op-domain", "likely", advice=advice)
        return None
