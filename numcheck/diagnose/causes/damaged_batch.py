# SPDX-License-Identifier: Apache-2.0
"""The batch itself holds NaN or Inf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["DamagedBatch"]


class DamagedBatch:
    """The data were bad before any operator of the step ran."""

    id = "N051"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for inputs and targets that came in bad."""
        if broke.id not in ("N001", "N002"):
            return None
        if broke.id == "N002":
            advice = ("mask_missing_labels", "check_preprocessing")
        else:
            advice = ("check_preprocessing", "impute_missing")
        return explain(
            self.id, "data", "certain", advice=advice, fields={"op": scene.site.op}
        )
