# SPDX-License-Identifier: Apache-2.0
"""The walk through the ten questions."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from numcheck.diagnose.triage.answers import QUESTIONS, Answer
from numcheck.diagnose.triage.gradient_norms import explode_or_vanish, norms_by_step
from numcheck.diagnose.triage.gradients import scaled_by_norm
from numcheck.diagnose.triage.normalisation_scale import normalises
from numcheck.errors import NumcheckError
from numcheck.measure import headroom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numcheck.diagnose.finding import Field
    from numcheck.diagnose.triage.answers import Known, Question, Verdict
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["triage"]

# Limits of the trade, not of a format. An input is called normalised within these; a
# value within two doublings of its format's maximum is close to it.
MOST_STD = 30.0
MOST_OFFSET = 10.0
CLOSE_BITS = 2.0
GAIN = (0.5, 2.0)
"""Growth of the root mean square per layer that a suitable initialisation keeps."""
FEWEST_PRODUCTS = 3
"""The last product is the head, of another size by design: two tell no growth."""


def triage(known: Known) -> tuple[Answer, ...]:
    """Return the ten answers, in the order of `QUESTIONS`."""
    return tuple(
        _ASK[question](known) or Answer(question, "not_measured")
        for question in QUESTIONS
    )


def _yes(question: Question, *, holds: bool, **fields: float | str) -> Answer:
    return Answer(question, "yes" if holds else "no", fields)


def _first_step(known: Known) -> Answer | None:
    error = known.error
    if error is None:
        return _unbroken("first_step", known)
    went = {e.name: e.result for e in known.experiments}
    if error.step > 0 and went.get("initial_parameters") == "failed":
        held: dict[str, Field] = {"step": error.step}
        return Answer("first_step", "no", held, text="no_drift")
    return _yes("first_step", holds=error.step == 0, step=error.step)


def _unbroken(question: Question, known: Known) -> Answer | None:
    """Answer that nothing broke, where steps were recorded at all."""
    if known.trace is None or not known.trace.summaries:
        return None
    return Answer(question, "no", text="unbroken")


def _input_scale(known: Known) -> Answer | None:
    """Whether the batch is finite and of ordinary scale.

    The scale is that of the step to look at, or of the last one before it where it was
    measured: most steps of a recording hold extremes alone.
    """
    for view in known.views:
        inputs = [
            (site, summary)
            for site, summary in _measured(view)
            if site.kind == "source" and site.role in ("input", "target")
            if "float" in site.dtype
        ]
        bad = next((p for p in inputs if p[1].is_finite is False), None)
        if bad is not None:
            return _not_finite(*bad)
        sizes = [(size, *p) for p in inputs if (size := _size(p[1])) is not None]
        if not sizes:
            continue
        size, site, summary = max(sizes, key=lambda found: found[0])
        answer = _yes("input_scale", holds=size <= 1, name=site.op, **_spread(summary))
        if known.view is not None and view.step == known.view.step:
            return answer
        fields = {**answer.fields, "step": view.step}
        text = f"{answer.verdict}_earlier"
        return dataclasses.replace(answer, fields=fields, text=text)
    return None


def _not_finite(site: Site, summary: Summary) -> Answer:
    infinite = (summary.pos_inf or 0) + (summary.neg_inf or 0)
    held: dict[str, Field] = {
        "name": site.op,
        "nan": summary.nan or 0,
        "inf": infinite,
    }
    return Answer("input_scale", "no", held, text="not_finite")


def _size(summary: Summary) -> float | None:
    """Return how far a batch lies beyond an ordinary scale; 1 is the limit."""
    if summary.mean is None or summary.std is None:
        return None
    return max(summary.std / MOST_STD, abs(summary.mean) / MOST_OFFSET)


def _spread(summary: Summary) -> dict[str, float]:
    known = {"mean": summary.mean, "std": summary.std, "amax": summary.amax}
    return {n: math.nan if v is None else v for n, v in known.items()}


def _activations(known: Known) -> Answer | None:
    """Whether an activation comes close to the largest value of its format."""
    tight = next((found for view in known.views if (found := _headrooms(view))), None)
    if not tight:
        return None
    left, site = min(tight, key=lambda pair: pair[0])
    error = known.error
    if error is not None and error.id.startswith("N1") and error.phase == "forward":
        left, site = -math.inf, error.site
    return _yes(
        "activations",
        holds=left < CLOSE_BITS,
        bits=left,
        name=site.name,
        dtype=site.dtype,
    )


def _headrooms(view: StepView) -> list[tuple[float, Site]]:
    """Return the headroom of each activation; counters in integers are none."""
    found: list[tuple[float, Site]] = []
    for site, summary in _measured(view):
        if site.kind != "operator" or site.phase != "forward":
            continue
        if site.effect not in ("compute", "cast") or "float" not in site.dtype:
            continue
        try:
            left = headroom(summary, site.dtype)
        except (NumcheckError, ValueError):
            continue  # unknown formats, and records that make no sense
        if left is not None:
            found.append((left, site))
    return found


def _float32(known: Known) -> Answer | None:
    """Whether the step behaves otherwise in float32."""
    for experiment in known.experiments:
        if experiment.name == "float32" and experiment.result != "not_run":
            healthy = experiment.result == "healthy"
            verdict: Verdict = "yes" if healthy else "no"
            return Answer("float32", verdict, text=f"{verdict}_asked")
    if known.departures is None or known.view is None:
        return None
    kept = [
        error
        for site in known.view.kept()
        if (error := known.departures.get(site.index)) is not None
    ]
    if not kept:
        return None
    worst = max(kept)
    verdict = "yes" if worst > 0.5 else "no"
    return Answer("float32", verdict, {"error": worst}, text=f"{verdict}_beside")


def _device_flag(known: Known) -> Answer | None:
    flag = known.settings.get("overflow_flag")
    readable = known.settings.get("overflow_flag_readable", flag is True)
    if not readable or flag is None:
        return None
    return _yes("device_flag", holds=bool(flag))


def _operator(known: Known) -> Answer | None:
    error = known.error
    if error is None:
        return _unbroken("operator", known)
    site = error.site
    if site.kind == "source":
        return Answer("operator", "yes", {"name": site.op}, text="given")
    line = f"{site.source.file}:{site.source.line}" if site.source else "-"
    return _yes("operator", holds=site.kind != "kept", name=site.name, line=line)


def _clipping(known: Known) -> Answer | None:
    limit = known.settings.get("clip_norm")
    if isinstance(limit, int | float) and not isinstance(limit, bool):
        return _yes("clipping", holds=True, limit=float(limit))
    norms = norms_by_step(known)
    if not norms:
        return None
    norm = max(norms.values())
    if known.view is not None and scaled_by_norm(known.view):
        return Answer("clipping", "yes", {"norm": norm}, text="by_norm")
    return _yes("clipping", holds=False, norm=norm)


def _initialisation(known: Known) -> Answer | None:
    """Whether activations keep their size from layer to layer at the first step."""
    recorded = known.trace.summaries if known.trace is not None else {}
    first = min((key for key in recorded if key[0] == 0), default=None)
    if known.trace is None or first is None:
        return None
    view = known.trace.at(*first)
    sizes = [
        size
        for site, summary in _measured(view)
        if site.family in ("matmul", "conv") and site.phase == "forward"
        if (size := _rms(summary)) is not None
    ]
    if not sizes or sizes[0] == 0:
        return None
    if len(sizes) < FEWEST_PRODUCTS:
        held: dict[str, Field] = {"layers": len(sizes), "of": FEWEST_PRODUCTS}
        return Answer("initialisation", "not_applicable", held, text="too_few")
    if sizes[-1] == 0:
        return _yes("initialisation", holds=False, gain=0.0, layers=len(sizes))
    gain = (sizes[-1] / sizes[0]) ** (1 / (len(sizes) - 1))
    return _yes(
        "initialisation", holds=GAIN[0] <= gain <= GAIN[1], gain=gain, layers=len(sizes)
    )


def _rms(summary: Summary) -> float | None:
    if summary.is_finite is False:
        return math.inf
    if summary.total_sq is None or not summary.finite:
        return None
    return math.sqrt(summary.total_sq / summary.finite)


def _measured(view: StepView | None) -> Iterator[tuple[Site, Summary]]:
    if view is None:
        return
    for index, summary in sorted(view.summaries.items()):
        yield view.trace.sites[index], summary


_ASK: dict[Question, Callable[[Known], Answer | None]] = {
    "first_step": _first_step,
    "input_scale": _input_scale,
    "activations": _activations,
    "gradients": explode_or_vanish,
    "float32": _float32,
    "device_flag": _device_flag,
    "operator": _operator,
    "normalisation": normalises,
    "clipping": _clipping,
    "initialisation": _initialisation,
}
