# SPDX-License-Identifier: Apache-2.0
"""Parameters, buffers or optimizer state were bad before the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["DamagedState"]


class DamagedState:
    """An earlier step, a checkpoint or the initialisation left NaN or Inf behind."""

    id = "N757"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for parameters, buffers and optimizer state that came in bad."""
        if broke.id not in ("N003", "N004", "N005"):
            return None
        advice = ("check_checkpoint", "check_initialisation", "reset_state")
        return explain(
            self.id, "dynamics", "likely", advice=advice, fields={"op": scene.site.op}
        )
