# SPDX-License-Identifier: Apache-2.0
"""NaN or Inf that the step was given: in the batch, or left by an earlier step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.rules.base import Match

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene
    from numcheck.measure.summary import Summary

__all__ = ["BadSource"]

_IDS: dict[str, str] = {
    "input": "N001",
    "target": "N002",
    "parameter": "N003",
    "buffer": "N004",
    "state": "N005",
    "constant": "N007",
}


class BadSource:
    """A source that was not finite before any operator ran."""

    id = "N001"

    def match(self, scene: Scene) -> Match | None:
        """Answer for origins that are sources."""
        if scene.origin.kind != "source":
            return None
        summary = scene.summary
        seen = () if summary is None or summary.nan is None else (_counts(summary),)
        return Match(_IDS.get(scene.site.role, "N001"), evidence=seen)


def _counts(summary: Summary) -> Evidence:
    fields = {
        "n": summary.n,
        "nan": summary.nan or 0,
        "inf": (summary.pos_inf or 0) + (summary.neg_inf or 0),
    }
    return Evidence("bad_elements", fields)
