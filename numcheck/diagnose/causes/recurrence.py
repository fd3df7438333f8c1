# SPDX-License-Identifier: Apache-2.0
"""A state that grows from one iteration to the next."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import OVERFLOWS, explain
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import format_of
from numcheck.diagnose.series import repetitions_before

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene
    from numcheck.diagnose.series import Ladder

__all__ = ["CarriedState", "Recurrence"]

_RUNGS = 6
_FACTOR = 1.05
_RISING = 0.8
_NEAR = 16  # sites between an operator and the state it reads


class Recurrence:
    """A recurrent map whose gain is above one, applied often enough."""

    id = "N756"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for overflows of an operator that fed itself, ever larger."""
        if broke.id not in OVERFLOWS:
            return None
        ladder = repetitions_before(scene.provenance.view, scene.site)
        few = ladder.rungs < _RUNGS and not ladder.accelerates
        if few or ladder.rising < _RISING:
            return None
        if ladder.factor < _FACTOR:
            return None
        if not (_fills_half(scene, ladder.amaxes[-1]) or _leads_out(scene, ladder)):
            return None
        seen = Evidence(
            "grows_by_iteration",
            {"factor": ladder.factor, "iterations": ladder.rungs},
        )
        # Layers stacked in one loop look the same, and start like this.
        first = ("standard_initialisation",) if scene.incident.step == 0 else ()
        advice = ("stable_recurrence", "clip_state", "normalise_state", *first)
        return explain(self.id, "dynamics", "likely", seen, advice=advice)


class CarriedState:
    """A state handed from step to step that every step makes larger."""

    id = "N756"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for overflows close to a buffer that came in large and is rewritten.

        At the initial parameters the step still reads it, so no experiment with them
        tells.
        """
        if broke.id not in OVERFLOWS or scene.incident.step == 0:
            return None
        view = scene.provenance.view
        rewritten = {s.op for s in view.kept() if s.role == "buffer"}
        for site in scene.ancestry.sites[:_NEAR]:
            held = view.summary(site) if site.op in rewritten else None
            if held is None or held.amax is None or not _fills_half(scene, held.amax):
                continue
            seen = Evidence("state_came_in", {"name": site.op, "amax": held.amax})
            advice = ("stable_recurrence", "clip_state", "normalise_state")
            return explain(self.id, "dynamics", "likely", seen, advice=advice)
        return None


def _leads_out(scene: Scene, ladder: Ladder) -> bool:
    """Whether a growth that itself grows reaches past the format at its next step.

    A cube needs but a third of the octaves to fill all of them.
    """
    limit = format_of(scene.site)
    if limit is None or not ladder.accelerates:
        return False
    before, last = (math.log2(b / a) for a, b in itertools.pairwise(ladder.amaxes[-3:]))
    grown = math.log2(ladder.amaxes[-1]) + last * last / before
    return grown >= math.log2(limit.max)


def _fills_half(scene: Scene, amax: float) -> bool:
    """Whether the state alone had used up half of the format's octaves.

    Where it had not, what came in at this iteration made it overflow.
    """
    limit = format_of(scene.site)
    return limit is not None and amax * amax >= limit.max
