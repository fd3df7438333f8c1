# SPDX-License-Identifier: Apache-2.0
"""The training drove its own state out of range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.ancestry import source_of
from numcheck.diagnose.causes.base import EDGES, OVERFLOWS, explain
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.history import growth
from numcheck.diagnose.moved import has_moved

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Certainty
    from numcheck.diagnose.history import Growth
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["Drift", "MomentumTooLarge", "drifted", "kept_positive", "ran_away"]

_EXPLODED = 1e3
_GROWN = 10.0  # times its ordinary value: a loss or gradient norm on its way out


class MomentumTooLarge:
    """A momentum of one or more never forgets: the velocity grows by itself."""

    id = "N753"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer when the optimizer's momentum is not below one."""
        momentum = scene.incident.settings.get("momentum")
        if not isinstance(momentum, int | float) or momentum < 1:
            return None
        if scene.incident.step == 0 or broke.id not in OVERFLOWS | EDGES:
            return None
        if scene.incident.went("initial_parameters") == "failed":
            return None
        seen = Evidence("momentum", {"momentum": float(momentum)})
        advice = ("momentum_below_one",)
        return explain(self.id, "dynamics", "certain", seen, advice=advice)


class Drift:
    """The batch is fine at the first parameters, and no longer at these."""

    id = "N751"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer when it is healthy at the initial parameters, or grew to this."""
        found = drifted(scene, broke)
        if found is None:
            return None
        certainty, seen = found
        usual = ("smaller_learning_rate", "clip_gradients", "warm_up")
        advice = (*kept_positive(scene, broke), *usual)
        return explain(self.id, "dynamics", certainty, *seen, advice=advice)


def drifted(
    scene: Scene, broke: Match
) -> tuple[Certainty, tuple[Evidence, ...]] | None:
    """Return how sure it is that the steps before led to this, and what grew.

    None where the step would have failed at the initial parameters as well, or where
    nothing tells.
    """
    incident = scene.incident
    went = incident.went("initial_parameters")
    if went == "failed" or not has_moved(incident):
        return None
    grown = [g for g in _growths(scene) if g.factor >= _GROWN]
    seen = tuple(
        Evidence(
            "grew",
            {"name": g.name, "first": g.first, "last": g.last, "steps": g.steps},
        )
        for g in grown
    )
    walked = broke.id in OVERFLOWS or _left_the_domain(scene, broke)
    if not (went == "healthy" and walked) and not grown:
        return None
    return ("certain" if went == "healthy" and grown else "likely"), seen


def _left_the_domain(scene: Scene, broke: Match) -> bool:
    """Whether a value that must stay positive, such as a scale, turned negative."""
    negative = ("N301", "N302", "N312")
    return broke.id in negative and scene.operand(0).has_negative


def kept_positive(scene: Scene, broke: Match) -> tuple[str, ...]:
    """Return the advice for a parameter, such as a scale, that an update made negative.

    A smaller step only comes there later.
    """
    operand = scene.operand(0).site
    if operand is None or not _left_the_domain(scene, broke):
        return ()
    held = source_of(scene.provenance.view, operand)
    is_parameter = held is not None and held.role == "parameter"
    return ("positive_by_construction",) if is_parameter else ()


def ran_away(scene: Scene) -> bool:
    """Whether the training was exploding anyway, so that range only gives a respite."""
    if scene.incident.went("initial_parameters") != "healthy":
        return False
    return any(g.factor >= _EXPLODED for g in _growths(scene))


def _growths(scene: Scene) -> list[Growth]:
    names = ("loss", "gradient_norm", "parameter_norm")
    found = (growth(scene.incident.history, name) for name in names)
    return [g for g in found if g is not None]
