# SPDX-License-Identifier: Apache-2.0
"""An index past the end, for which the framework fills in NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.rules.base import Match

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["IndexRange"]


class IndexRange:
    """A gather gives NaN although what it reads from is finite."""

    id = "N006"

    def match(self, scene: Scene) -> Match | None:
        """Answer for gathers and scatters that give NaN out of finite values."""
        if scene.site.family not in ("gather", "scatter") or scene.kind != "nan":
            return None
        indices = [
            o
            for o in scene.operands[1:]
            if o.site is not None and o.site.dtype.startswith(("int", "uint"))
        ]
        known = [o.high for o in indices if o.high is not None]
        seen = (Evidence("largest_index", {"high": max(known)}),) if known else ()
        return Match(self.id, evidence=seen)
