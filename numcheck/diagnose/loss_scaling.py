# SPDX-License-Identifier: Apache-2.0
"""The number by which a loss is multiplied before it is differentiated."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.diagnose.incident import Incident
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["SMALLEST_SCALE", "scale_in_play"]

SMALLEST_SCALE = 2.0**8
"""Multiplying a loss by less is a weight, not a scale."""


def scale_in_play(incident: Incident) -> float | None:
    """Return the factor by which the loss of a step is scaled; None without one.

    It is what the adapter knows of, else the largest plain number or number of the
    program's state by which a scalar is multiplied.
    """
    known = incident.settings.get("loss_scale")
    if isinstance(known, int | float) and known >= SMALLEST_SCALE:
        return float(known)
    view = incident.view
    found = [
        factor
        for site in view.trace.sites
        if site.family == "mul" and not site.shape
        if site.phase in ("forward", "backward")
        for factor in _factors(view, site)
    ]
    return max((f for f in found if f >= SMALLEST_SCALE), default=None)


def _factors(view: StepView, site: Site) -> Iterator[float]:
    for name, value in site.detail:
        if name.startswith("operand") and isinstance(value, int | float):
            yield abs(float(value))
    for parent in view.parents(site):
        held = view.summary(parent)
        if parent.kind == "source" and parent.role != "parameter" and held is not None:
            yield held.amax or 0.0
