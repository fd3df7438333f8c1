# SPDX-License-Identifier: Apache-2.0
"""Whether normalisation layers give an ordinary scale, judged on healthy values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck.diagnose.triage.answers import Answer
from numcheck.diagnose.triage.normalisations import normalised

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Field
    from numcheck.diagnose.triage.answers import Known, Verdict
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["normalises"]

_MOST: Final = 100.0
"""A normalised row of n elements cannot exceed sqrt(n) before its scale and bias;
beyond a hundred, scale or bias have run away."""


def normalises(known: Known) -> Answer | None:
    """Answer from the last step at which every normalised value is finite.

    What reaches a layer broken leaves it broken: that says nothing of the layer,
    except where it is the first to break.
    """
    view = known.view
    if view is None or not _has_operators(view):
        return None
    layers = normalised(view)
    if not layers:
        return Answer("normalisation", "not_applicable", {"layers": 0}, text="none")
    error = known.error
    if error is not None and error.site.index in {site.index for site in layers}:
        held: dict[str, Field] = {
            "layers": len(layers),
            "name": error.site.name,
            "step": error.step,
        }
        return Answer("normalisation", "no", held, text="broke")
    for seen in known.views:
        outputs = _finite(seen, layers)
        if outputs:
            return _judged(outputs, seen.step, earlier=seen.step < view.step)
    return None


def _judged(outputs: list[tuple[Site, Summary]], step: int, *, earlier: bool) -> Answer:
    amax, name = max((held.amax or 0.0, site.name) for site, held in outputs)
    verdict: Verdict = "yes" if amax <= _MOST else "no"
    fields: dict[str, Field] = {"layers": len(outputs), "amax": amax, "name": name}
    if not earlier:
        return Answer("normalisation", verdict, fields)
    fields["step"] = step
    return Answer("normalisation", verdict, fields, text=f"{verdict}_earlier")


def _finite(view: StepView, layers: tuple[Site, ...]) -> list[tuple[Site, Summary]]:
    """Return what the layers gave; nothing where some of it is not finite."""
    outputs = [
        (site, held) for site in layers if (held := view.summary(site)) is not None
    ]
    broken = any(held.is_finite is False for _, held in outputs)
    return [] if broken else outputs


def _has_operators(view: StepView) -> bool:
    return any(view.trace.sites[index].kind == "operator" for index in view.summaries)
