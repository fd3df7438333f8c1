# SPDX-License-Identifier: Apache-2.0
"""NaN or Inf that the program wrote itself and that was not masked again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Uninitialised", "Written"]


class Written:
    """A constant of the program reached a result."""

    id = "N007"

    def match(self, scene: Scene) -> Match | None:
        """Answer for origins that are literals."""
        return Match(self.id) if scene.origin.kind == "literal" else None


class Uninitialised:
    """Memory that was allocated but not written reached a result."""

    id = "N008"

    def match(self, scene: Scene) -> Match | None:
        """Answer for allocations."""
        return Match(self.id) if scene.site.effect == "uninitialised" else None
