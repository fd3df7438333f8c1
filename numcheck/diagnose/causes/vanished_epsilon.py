# SPDX-License-Identifier: Apache-2.0
"""An epsilon below the smallest number of the format it is added in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import EDGES, explain
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import format_of, is_low_precision

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.finding import Certainty
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene
    from numcheck.record.site import Site

__all__ = ["VanishedEpsilon"]

_REACH = 12  # operators between adding the epsilon and dividing by the result


class VanishedEpsilon:
    """The guard against zero rounds to zero itself."""

    id = "N152"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for poles that float32 does not meet and an epsilon should avert."""
        if broke.id not in EDGES or scene.incident.went("float32") == "failed":
            return None
        healed = scene.incident.went("float32") == "healthy"
        eps = _vanished(scene)
        if eps is None or not (healed or is_low_precision(scene.site)):
            return None
        site, value = eps
        limit = format_of(site)
        smallest = 0.0 if limit is None else limit.smallest_subnormal
        seen = Evidence(
            "epsilon_vanished",
            {"eps": value, "dtype": site.dtype, "smallest": smallest},
        )
        certainty: Certainty = "certain" if healed else "likely"
        advice = ("larger_epsilon", "statistics_in_float32", "float32_master")
        return explain(self.id, "precision", certainty, seen, advice=advice)


def _vanished(scene: Scene) -> tuple[Site, float] | None:
    """Return the addition of a number its format rounds to zero, and that number."""
    for site in scene.ancestry.sites[: _REACH * 2]:
        numbers = [
            float(v)
            for k, v in site.detail
            if k.startswith(("operand", "eps", "alpha")) and isinstance(v, int | float)
        ]
        limit = format_of(site)
        if site.kind != "operator" or limit is None or not is_low_precision(site):
            continue
        for number in numbers:
            if site.family == "add" and abs(number) <= limit.underflow_threshold:
                return site, abs(number)
    eps = scene.incident.settings.get("eps")
    limit = format_of(scene.site)
    if limit is None or not isinstance(eps, int | float):
        return None
    if scene.site.phase != "optimizer" or not is_low_precision(scene.site):
        return None
    return (scene.site, float(eps)) if 0 < eps <= limit.underflow_threshold else None
