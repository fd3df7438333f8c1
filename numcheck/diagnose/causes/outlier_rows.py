# SPDX-License-Identifier: Apache-2.0
"""A few samples of the batch whose values stand far out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import EDGES, OVERFLOWS, explain, tried
from numcheck.diagnose.dropped import is_dropped
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.outliers import largest_input

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Advice
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["OutlierRows", "carried_by_outliers"]


_POLES = ("N301", "N311", "N312")


class OutlierRows:
    """A sentinel (1e30), a unit error, a corrupt record: without it all is well."""

    id = "N055"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer when few samples carry the failure, and the batch explains it."""
        if broke.id not in OVERFLOWS | EDGES:
            return None
        went = scene.incident.went("rows")
        if went == "failed" or _fail_together(scene) or is_dropped(scene):
            return None
        sources = scene.ancestry.sources("input", "target")
        scale = largest_input(scene.provenance.view, sources)
        few = went == "healthy" and scale is not None and scale.is_large
        far = scale is not None and (scale.has_outlier or few)
        without = _without(scene)
        steps: tuple[str | Advice, ...]
        if scale is not None and far and broke.id in OVERFLOWS:
            seen = Evidence("outlier", {"amax": scale.amax, "rest": scale.rest})
            steps = (*without, "clip_outliers", "check_preprocessing")
            return explain(self.id, "data", "likely", seen, advice=steps)
        if went == "healthy" and _is_invalid(scene, broke):
            steps = (*without, "check_preprocessing", "clamp_argument")
            return explain(self.id, "data", "likely", advice=steps)
        return None


def _is_invalid(scene: Scene, broke: Match) -> bool:
    """Whether numbers of the batch alone have no place in the function: a -1 code.

    At a pole, such as that of log at 0 and of atanh at 1, a function still has a limit:
    there it lacks a guard, and the batch is what it may be. Whether a divisor may be
    zero only its meaning tells, and a batch that divides by its own zero is the rarer.
    """
    if scene.site.phase != "forward" or not scene.ancestry.is_from_batch:
        return False
    if broke.id in _POLES and scene.kind != "nan" and not _is_negative_count(scene):
        return False
    divides = scene.denominator.site is not None
    behind = scene.ancestry_of(scene.denominator if divides else scene.operand(0))
    if behind is None:
        return False
    sources = behind.sources("input", "target")
    return largest_input(scene.provenance.view, sources) is not None


def _is_negative_count(scene: Scene) -> bool:
    """Whether the pole is that of log1p: what it takes are counts, and one is -1."""
    return scene.site.family == "log" and scene.operand(0).has_negative


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
