# SPDX-License-Identifier: Apache-2.0
"""A mask that a fused attention kernel understands otherwise than meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.rules.base import Match

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["FusedMask"]

_MISUSED: Final = ("mask_dtype", "mask_shape", "mask_upside_down")


class FusedMask:
    """The adapter looked at the mask of a fused attention and found it wrong."""

    id = "N604"

    def match(self, scene: Scene) -> Match | None:
        """Answer for attention whose mask has a fact against it."""
        if scene.site.family != "attention" or scene.site.phase == "backward":
            return None
        facts = dict(scene.site.detail)
        seen = [Evidence(name, {"value": facts[name]}) for name in _MISUSED
                if name in facts]  # fmt: skip
        hidden = facts.get("mask_hidden_rows")
        if hidden is not None:
            rows = {"rows": hidden, "of": facts.get("mask_rows", hidden)}
            seen.append(Evidence("mask_hidden_rows", rows))
        if not seen:
            return None
        misused = seen[0].key in _MISUSED
        return Match("N604" if misused else "N605", evidence=tuple(seen))
