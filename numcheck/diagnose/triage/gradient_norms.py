# SPDX-License-Identifier: Apache-2.0
"""Whether gradients explode or vanish, judged where they are finite.

One NaN of the batch makes every gradient of its step NaN: that is no explosion.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final

from numcheck.diagnose.triage.answers import Answer
from numcheck.diagnose.triage.gradients import gradients_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.diagnose.finding import Field
    from numcheck.diagnose.triage.answers import Known, Verdict
    from numcheck.record.trace import StepView

__all__ = ["explode_or_vanish", "norms_by_step"]

SPREAD: Final = 1e4
"""Ratio of the largest to the median gradient norm that counts as exploding."""


def explode_or_vanish(known: Known) -> Answer | None:
    """Answer from the last step with finite gradients, and from the run's norms."""
    if known.view is None:
        return None
    failed = math.inf in _norms(known.view).values()
    if failed and known.error is not None and _overflowed(known):
        held: dict[str, Field] = {
            "step": known.error.step,
            "name": known.error.site.name,
            "dtype": known.error.site.dtype,
        }
        return Answer("gradients", "yes", held, text="overflow")
    grown = _grown(known)
    if grown is not None:
        return grown
    view = _judged(known)
    if view is None or (failed and _diverged(known)):
        return None
    return _spread(known, view, failed=failed)


def norms_by_step(known: Known) -> Mapping[int, float]:
    """Return the norm of all gradients at each step where it is known and finite."""
    norms: dict[int, float] = {}
    for event in known.events:
        if event.name.startswith("gradient_norm") and isinstance(event.value, float):
            norms[event.step] = max(event.value, norms.get(event.step, event.value))
    if not norms and known.trace is not None:
        for step, rank in known.trace.summaries:
            found = _norms(known.trace.at(step, rank)).values()
            if found:
                norms[step] = max(math.hypot(*found), norms.get(step, 0.0))
    return {s: n for s, n in norms.items() if math.isfinite(n)}


def _spread(known: Known, view: StepView, *, failed: bool) -> Answer:
    """Answer from the norms of one step, side by side."""
    norms = _norms(view)
    largest = max(norms, key=lambda name: norms[name])
    smallest = min(norms, key=lambda name: norms[name])
    middle = statistics.median(norms.values())
    holds = norms[smallest] == 0 or norms[largest] > SPREAD * middle
    held: dict[str, Field] = {
        "largest": norms[largest],
        "at": largest,
        "smallest": norms[smallest],
        "low": smallest,
        "median": middle,
    }
    verdict: Verdict = "yes" if holds else "no"
    if not failed or known.view is None:
        return Answer("gradients", verdict, held)
    # What a step hands back is checked at every step: the one before was finite.
    step = known.view.step
    held |= {"measured": view.step, "until": step - 1, "step": step}
    return Answer("gradients", verdict, held, text=f"{verdict}_before")


def _judged(known: Known) -> StepView | None:
    """Return the step with the most gradients measured, all finite; the last such."""
    best: tuple[int, StepView] | None = None
    for view in known.views:
        norms = _norms(view)
        if not norms or math.inf in norms.values():
            continue
        if best is None or len(norms) > best[0]:
            best = len(norms), view
    return None if best is None else best[1]


def _grown(known: Known) -> Answer | None:
    """Answer where the norm of all gradients grew without bounds over the steps."""
    norms = norms_by_step(known)
    if known.error is not None:
        norms = {s: n for s, n in norms.items() if s <= known.error.step}
    last = max(norms, key=lambda step: norms[step], default=0)
    before = [norm for step, norm in norms.items() if step < last]
    if not before or norms[last] <= SPREAD * statistics.median(before):
        return None
    held: dict[str, Field] = {
        "largest": norms[last],
        "step": last,
        "median": statistics.median(before),
    }
    return Answer("gradients", "yes", held, text="grew")


def _overflowed(known: Known) -> bool:
    """Whether the failure is a gradient that left the range of its format."""
    error = known.error
    return error is not None and error.id.startswith("N1") and error.phase == "backward"


def _diverged(known: Known) -> bool:
    """Whether the training drifted to its failure, with no norm known on the way."""
    error = known.error
    if error is None or error.cause is None or error.cause.cls != "dynamics":
        return False
    return error.step > 0 and error.step - 1 not in norms_by_step(known)


def _norms(view: StepView) -> dict[str, float]:
    """Return the L2 norm of each gradient; Inf where it is not finite."""
    norms: dict[str, float] = {}
    for name, site in gradients_of(view).items():
        held = view.summary(site)
        if held is not None and held.is_finite is False:
            norms[name] = math.inf
        elif held is not None and held.total_sq is not None:
            norms[name] = math.sqrt(held.total_sq)
    return norms
