# SPDX-License-Identifier: Apache-2.0
"""A few samples of the batch whose values stand far out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import EDGES, OVERFLOWS, explain, tried
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.outliers import largest_input

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Advice
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["OutlierRows", "carried_by_outliers"]


class OutlierRows:
    """A sentinel (1e30), a unit error, a corrupt record: without it all is well."""

    id = "N055"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer when few samples carry the failure, and the batch explains it."""
        if broke.id not in OVERFLOWS | EDGES:
            return None
        went = scene.incident.went("rows")
        if went == "failed" or _fail_together(scene):
            return None
        sources = scene.ancestry.sources("input", "target")
        scale = largest_input(scene.provenance.view, sources)
        few = went == "healthy" and scale is not None and scale.is_large
        far = scale is not None and (scale.has_outlier or few)
        alone = scene.ancestry.is_from_batch and scene.site.phase == "forward"
        without = _without(scene)
        steps: tuple[str | Advice, ...]
        if scale is not None and far and broke.id in OVERFLOWS:
            seen = Evidence("outlier", {"amax": scale.amax, "rest": scale.rest})
            steps = (*without, "clip_outliers", "check_preprocessing")
            return explain(self.id, "data", "likely", seen, advice=steps)
        if went == "healthy" and alone:
            steps = (*without, "check_preprocessing", "clamp_argument")
            return explain(self.id, "data", "likely", advice=steps)
        return None


def carried_by_outliers(scene: Scene) -> bool:
    """Whether few samples carry the failure and an element of theirs stands far out.

    Then more range is a respite: a sentinel or a wrong unit stays wrong in any format.
    """
    if scene.incident.went("rows") != "healthy" or _fail_together(scene):
        return False
    sources = scene.ancestry.sources("input", "target")
    scale = largest_input(scene.provenance.view, sources)
    return scale is not None and scale.has_outlier


def _fail_together(scene: Scene) -> bool:
    """Whether no sample fails by itself: then what the program makes of them does."""
    rows = scene.incident.experiments.get("rows")
    return rows is not None and bool(rows.fields.get("together"))


def _without(scene: Scene) -> tuple[Advice, ...]:
    """Return that the samples can be dropped, where the step was run without them."""
    if scene.incident.went("rows") != "healthy":
        return ()
    fields = scene.incident.experiments["rows"].fields
    return (tried("drop_samples", rows=fields["rows"], count=fields["count"]),)
