# SPDX-License-Identifier: Apache-2.0
"""Conversions that give the format's largest number for what lies beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.device.hidden import is_saturated
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import format_of

if TYPE_CHECKING:
    from numcheck.diagnose.finding import FaultKind, Field
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["saturated"]


def saturated(
    view: StepView, site: Site
) -> tuple[FaultKind, tuple[Evidence, ...]] | None:
    """Return the evidence that a cast cut off what is too large, or None.

    What a program cuts off itself before it casts is no larger than the format allows.
    """
    limit, held = format_of(site), view.summary(site)
    if limit is None or held is None or site.effect != "cast":
        return None
    if not (held.is_finite and is_saturated(site, held)):
        return None
    given = [view.summary(parent) for parent in site.parents]
    largest = max((s.amax or 0.0 for s in given if s is not None), default=0.0)
    if largest <= limit.overflow_threshold:
        return None
    fields: dict[str, Field] = {"amax": largest, "dtype": limit.name, "max": limit.max}
    return "saturation", (Evidence("cut_off", fields),)
