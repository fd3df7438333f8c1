# SPDX-License-Identifier: Apache-2.0
"""A value too large for the format it is converted to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.rules.base import Match

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["CastOverflow"]


class CastOverflow:
    """A conversion to a narrower format overflows."""

    id = "N105"

    def match(self, scene: Scene) -> Match | None:
        """Answer for conversions of finite values."""
        site = scene.site
        is_cast = site.effect == "cast" or site.family == "cast"
        if not is_cast or scene.origin.kind != "birth":
            return None
        before = scene.operand(0)
        fields = {"from": before.site.dtype if before.site else "", "to": site.dtype}
        return Match(self.id, fields)
