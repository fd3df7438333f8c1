# SPDX-License-Identifier: Apache-2.0
"""Whether updates lie between the first parameters and the ones that failed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numcheck.diagnose.incident import Incident

__all__ = ["has_moved"]


def has_moved(incident: Incident) -> bool:
    """Whether the parameters are not the first ones any more.

    An optimizer that evaluates its loss several times a step, such as L-BFGS, moves
    them within step 0: a finite loss and its gradient were read before the others.
    """
    if incident.step > 0:
        return True
    kept = [s for s in incident.view.kept() if s.role == "loss"]
    held = [incident.view.summary(site) for site in kept]
    if not any(summary is not None and summary.is_finite is False for summary in held):
        return False
    read: dict[str, list[float]] = {"loss": [], "gradient_norm": []}
    for event in incident.history:
        if event.name in read and isinstance(event.value, int | float):
            read[event.name].append(float(event.value))
    losses, norms = read["loss"], read["gradient_norm"]
    began_well = losses[:1] + norms[:1]
    return (
        len(norms) > 1 and len(began_well) > 1 and all(map(math.isfinite, began_well))
    )
