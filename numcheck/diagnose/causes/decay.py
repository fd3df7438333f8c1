# SPDX-License-Identifier: Apache-2.0
"""Weight decay that overshoots: it turns the weights over instead of shrinking them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from numcheck.diagnose.causes.base import explain
from numcheck.diagnose.causes.drift import drifted
from numcheck.diagnose.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Certainty
    from numcheck.diagnose.incident import Setting
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["DecayTooStrong", "decay_multiplied", "too_strong"]

_GROWN: Final = 100.0
"""What decay alone must have multiplied the weights by before it is to blame."""
_TURNS_AND_GROWS: Final = 2.0


class DecayTooStrong:
    """Each step takes more than twice a weight away from it, and so they grow."""

    id = "N763"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer where decay alone, without any gradient, makes the weights grow."""
        incident = scene.incident
        if not decay_multiplied(incident.settings, incident.step):
            return None
        found = drifted(scene, broke)
        return None if found is None else too_strong(incident.settings, *found)


def decay_multiplied(settings: Mapping[str, Setting], steps: int) -> bool:
    """Whether decay alone made weights grow many times over within so many steps.

    Example:
        >>> decay_multiplied({"decay_gain": 2.0}, steps=20)
        True
        >>> decay_multiplied({"decay_gain": 0.999}, steps=20)
        False
    """
    gain = settings.get("decay_gain")
    if not isinstance(gain, int | float) or gain <= 1:
        return False
    return steps * math.log(gain) >= math.log(_GROWN)


def too_strong(
    settings: Mapping[str, Setting], certainty: Certainty, seen: tuple[Evidence, ...]
) -> Explanation:
    """Return the claim that decay is too strong, with what speaks for it."""
    gain = Evidence("decay_gain", {"gain": settings["decay_gain"]})
    advice = ("smaller_decay", "smaller_learning_rate")
    told = (gain, *_read(settings), *seen)
    return explain("N763", "dynamics", certainty, *told, advice=advice)


def _read(settings: Mapping[str, Setting]) -> tuple[Evidence, ...]:
    """Return the first group's numbers, where it is that group that grows."""
    rate, decay = settings.get("lr"), settings.get("weight_decay")
    if not (isinstance(rate, int | float) and isinstance(decay, int | float)):
        return ()
    if not rate * decay > _TURNS_AND_GROWS:
        return ()
    fields = {"rate": rate, "decay": decay, "product": rate * decay}
    return (Evidence("decay_settings", fields),)
