# SPDX-License-Identifier: Apache-2.0
"""A returned value is not finite, and the step could not be run again to see why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["UnknownOperator"]


class UnknownOperator:
    """Nothing between the step's sources and what it handed back was recorded."""

    id = "N903"

    def match(self, scene: Scene) -> Match | None:
        """Answer for origins that are what the step handed back."""
        return Match(self.id) if scene.site.kind == "kept" else None
