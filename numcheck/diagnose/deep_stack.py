# SPDX-License-Identifier: Apache-2.0
"""Activations that grow over a deep stack which nothing normalises."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from numcheck.diagnose.ancestry import ancestry
from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.line import fitted
from numcheck.diagnose.series import layers_before
from numcheck.diagnose.triage.normalisations import normalised

if TYPE_CHECKING:
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["growing_stack"]

_DEEP: Final = 8
_FACTOR: Final = 1.2
_RISING: Final = 0.75
_STEADY: Final = 0.9


def growing_stack(view: StepView, site: Site) -> Evidence | None:
    """Return the growth from layer to layer before a site, where nothing stops it.

    It is steady: by about one factor at every layer, not by one layer's jump.
    """
    ladder = layers_before(view, site)
    if ladder.rungs < _DEEP or ladder.factor < _FACTOR or ladder.rising < _RISING:
        return None
    line = fitted([(i, math.log2(amax)) for i, amax in enumerate(ladder.amaxes)])
    if line is None or line.explained < _STEADY:
        return None
    behind = {s.index for s in ancestry(view, site).sites}
    if any(s.index in behind for s in normalised(view)):
        return None
    fields = {"factor": ladder.factor, "layers": ladder.rungs}
    return Evidence("grows_unnormalised", fields)
