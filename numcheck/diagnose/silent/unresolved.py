# SPDX-License-Identifier: Apache-2.0
"""Angles too large for their format to tell one turn from the next."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import format_of

if TYPE_CHECKING:
    from numcheck.diagnose.finding import FaultKind, Field
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["unresolved"]

_PERIODIC = re.compile(r"\b(sin|cos|tan|sinc)_?\b")
_COARSE = 1.0  # radians between neighbouring arguments


def unresolved(
    view: StepView, site: Site
) -> tuple[FaultKind, tuple[Evidence, ...]] | None:
    """Return the evidence that a periodic function's argument is too coarse."""
    if site.family != "trigonometric" or not _PERIODIC.search(site.op):
        return None
    parent = next(iter(view.parents(site)), None)
    limit = None if parent is None else format_of(parent)
    held = None if parent is None else view.summary(parent)
    if limit is None or limit.kind != "float" or held is None or held.amax is None:
        return None
    step = held.amax * limit.eps
    if step < _COARSE:
        return None
    fields: dict[str, Field] = {"amax": held.amax, "dtype": limit.name, "step": step}
    return "departure", (Evidence("coarse_angle", fields),)
