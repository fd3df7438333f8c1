# SPDX-License-Identifier: Apache-2.0
"""Labels or indices past the number of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.ancestry import source_of
from numcheck.diagnose.causes.base import OVERFLOWS, explain

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Certainty
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["LabelRange"]


class LabelRange:
    """An index of the batch lies outside what it points into."""

    id = "N052"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for gathers that found nothing at an index."""
        if broke.id == "N314":
            fix = ("label_fits_input",)
            return explain("N057", "data", "likely", advice=fix)
        if broke.id in OVERFLOWS and _is_no_share(scene):
            shares = ("labels_as_shares", "check_label_range")
            return explain(self.id, "data", "likely", advice=shares)
        if broke.id != "N006":
            return None
        certainty: Certainty = (
            "certain" if scene.ancestry.sources("input", "target") else "likely"
        )
        view, table = scene.provenance.view, scene.operand(0).site
        held = None if table is None else source_of(view, table)
        if held is not None and held.role == "parameter":
            return explain(self.id, "data", certainty, advice=("indices_in_table",))
        advice = ("labels_from_zero", "check_label_range")
        return explain(self.id, "data", certainty, advice=advice)


def _is_no_share(scene: Scene) -> bool:
    """Whether a binary cross entropy got labels with which it has no lower bound."""
    if "binary_cross_entropy" not in scene.site.op or scene.site.phase != "forward":
        return False
    labels = scene.operand(1)
    behind = scene.ancestry_of(labels)
    if behind is None or not behind.is_from_batch:
        return False
    return labels.has_negative or (labels.high is not None and labels.high > 1)
