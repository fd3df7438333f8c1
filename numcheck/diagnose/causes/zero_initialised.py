# SPDX-License-Identifier: Apache-2.0
"""A layer that starts at zero and is normalised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import explain
from numcheck.diagnose.finding import Evidence

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["ZeroInitialised"]

_FACTORS = 2  # a product that reads more adds the rest


class ZeroInitialised:
    """Zero weights give a zero vector, which has no direction."""

    id = "N755"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for divisions by an all-zero value behind an all-zero parameter."""
        if broke.id not in ("N303", "N304", "N309", "N301"):
            return None
        divisor = scene.denominator if scene.denominator.site else scene.operand(0)
        behind = scene.ancestry_of(divisor)
        if behind is None or not divisor.is_all_zero:
            return None
        view = scene.provenance.view
        zeros = [
            s
            for s in behind.sources("parameter")
            if (held := view.summary(s)) is not None and held.is_all_zero
            if not _is_bias(view, s)
        ]
        if not zeros:
            return None
        seen = Evidence("parameter_zero", {"op": zeros[0].op})
        advice = ("non_zero_initialisation", "normalise_with_epsilon")
        return explain(self.id, "dynamics", "likely", seen, advice=advice)


def _is_bias(view: StepView, parameter: Site) -> bool:
    """Whether a parameter is only ever added: a bias starts at zero as a rule."""
    if len(parameter.shape) > 1:
        return False
    front, reading = [parameter.index], []
    for index in front:
        for child in view.trace.children.get(index, ()):
            site = view.trace.sites[child]
            if site.effect in ("move", "cast"):
                front.append(child)
            else:
                reading.append(site)
    return all(s.family == "add" or len(s.parents) > _FACTORS for s in reading)
