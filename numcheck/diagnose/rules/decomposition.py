# SPDX-License-Identifier: Apache-2.0
"""A matrix decomposition or solve at a point where it is not defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.rules.base import Match

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["Decomposition"]

_WORDS = ("eig", "svd", "qr", "cholesky", "lu", "slogdet", "det", "inv", "solve")
_REACH = 12  # the derivative's few operators; farther up it is another matter


class Decomposition:
    """Equal eigenvalues, a singular matrix, or one that is not positive definite."""

    id = "N310"

    def match(self, scene: Scene) -> Match | None:
        """Answer for decompositions, solves, and the divisions in their derivatives."""
        if scene.origin.kind != "birth":
            return None
        if scene.site.family in ("decomposition", "solve"):
            return Match(self.id, {"decomposition": scene.site.op})
        found = _differentiated(scene)
        if found is None or not scene.denominator.has_zero:
            return None
        seen = Evidence("denominator_zero")
        return Match(self.id, {"decomposition": found}, (seen,))


def _differentiated(scene: Scene) -> str | None:
    """Return the decomposition whose derivative the origin belongs to."""
    forward = scene.fact("forward_op")
    if isinstance(forward, str):
        words = forward.replace(".", "_").split("_")
        return forward if any(w.startswith(_WORDS) for w in words if w) else None
    if scene.site.phase != "backward":
        return None
    near = scene.ancestry.sites[: _REACH + 1]
    found = next((s for s in near if s.family == "decomposition"), None)
    return None if found is None else found.op
