# SPDX-License-Identifier: Apache-2.0
"""Steps too large for the training: at all of them, or only at the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck.diagnose.causes.base import explain
from numcheck.diagnose.causes.drift import drifted
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.first_steps import rose, thrown

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Certainty
    from numcheck.diagnose.first_steps import Rise
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["NoWarmUp", "RateTooHigh", "too_high"]

_SOON: Final = 100
"""Steps within which a start can be to blame; a usual warm-up is not much longer."""


class NoWarmUp:
    """The first updates at the full rate threw the training out; later ones do not."""

    id = "N760"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer where the loss multiplied at the first updates and came back."""
        found, start = drifted(scene, broke), thrown(scene.incident.history)
        if found is None or start is None or scene.incident.step > _SOON:
            return None
        seen = Evidence(
            "no_warm_up",
            {
                "first": start.first,
                "peak": start.peak,
                "ratio": start.ratio,
                "rate": start.rate,
            },
        )
        advice = ("warm_up", "smaller_learning_rate", "clip_gradients")
        return explain(self.id, "dynamics", "likely", seen, *found[1], advice=advice)


class RateTooHigh:
    """Every update overshoots: the loss rose from the first one on."""

    id = "N759"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer where no update ever lowered the loss."""
        found, risen = drifted(scene, broke), rose(scene.incident.history)
        if found is None or risen is None:
            return None
        return too_high(risen, found[0], found[1])


def too_high(
    risen: Rise, certainty: Certainty, seen: tuple[Evidence, ...]
) -> Explanation:
    """Return the claim that the learning rate is too high, with what speaks for it."""
    rise = Evidence(
        "never_fell", {"first": risen.first, "last": risen.last, "steps": risen.steps}
    )
    more = []
    if risen.ratio is not None:
        more.append(Evidence("update_ratio", {"ratio": risen.ratio}))
    if risen.rate is not None:
        more.append(Evidence("learning_rate", {"rate": risen.rate}))
    advice = ("smaller_learning_rate", "warm_up", "clip_gradients")
    return explain("N759", "dynamics", certainty, rise, *more, *seen, advice=advice)
