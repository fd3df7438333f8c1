# SPDX-License-Identifier: Apache-2.0
"""The walk through the ten questions."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from numcheck.diagnose.triage.answers import QUESTIONS, Answer
from numcheck.diagnose.triage.gradients import gradients_of, scaled_by_norm
from numcheck.diagnose.triage.normalisations import normalised
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
SPREAD = 1e4
"""Ratio of the largest to the median gradient norm that counts as exploding."""
GAIN = (0.5, 2.0)
"""Growth of the root mean square per layer that a suitable initialisation keeps."""


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
    return _yes("first_step", holds=error.step == 0, step=error.step)


def _unbroken(question: Question, known: Known) -> Answer | None:
    """Answer that nothing broke, where steps were recorded at all."""
    if known.trace is None or not known.trace.summaries:
        return None
    return Answer(question, "no", text="unbroken")


def _input_scale(known: Known) -> Answer | None:
    """Whether the batch is finite and of ordinary scale."""
    worst: tuple[float, Site, Summary] | None = None
    for site, summary in _measured(known.view):
        if site.kind != "source" or site.role not in ("input", "target"):
            continue
        if "float" not in site.dtype:
            continue
        if summary.is_finite is False:
            infinite = (summary.pos_inf or 0) + (summary.neg_inf or 0)
            held: dict[str, Field] = {
                "name": site.op,
                "nan": summary.nan or 0,
                "inf": infinite,
            }
            return Answer("input_scale", "no", held, text="not_finite")
        if summary.mean is not None and summary.std is not None:
            size = max(summary.std / MOST_STD, abs(summary.mean) / MOST_OFFSET)
            if worst is None or size > worst[0]:
                worst = size, site, summary
    if worst is None:
        return None
    size, site, summary = worst
    return _yes("input_scale", holds=size <= 1, name=site.op, **_spread(summary))


def _spread(summary: Summary) -> dict[str, float]:
    known = {"mean": summary.mean, "std": summary.std, "amax": summary.amax}
    return {n: math.nan if v is None else v for n, v in known.items()}


def _activations(known: Known) -> Answer | None:
    """Whether an activation comes close to the largest value of its format."""
    tight = [
        (left, site)
        for site, summary in _measured(known.view)
        if site.kind == "operator" and site.phase == "forward"
        if (left := _headroom(site, summary)) is not None
    ]
    if not tight:
        return None
    left, site = min(tight, key=lambda pair: pair[0])
    error = known.error
    if error is not None and error.id.startswith("N1") and error.phase == "forward":
        left, site = min(left, 0.0), error.site
    return _yes(
        "activations",
        holds=left < CLOSE_BITS,
        bits=left,
        name=site.name,
        dtype=site.dtype,
    )


def _headroom(site: Site, summary: Summary) -> float | None:
    try:
        left = headroom(summary, site.dtype)
    except (NumcheckError, ValueError):
        return None  # integers, unknown dtypes, and records that make no sense
    return left


def _gradients(known: Known) -> Answer | None:
    """Whether gradients explode, vanish or are not finite in some layer."""
    norms = {} if known.view is None else _norms(known.view)
    if not norms:
        return None
    largest = max(norms, key=lambda name: norms[name])
    smallest = min(norms, key=lambda name: norms[name])
    middle = statistics.median(norms.values())
    bad = norms[smallest] == 0 or math.isinf(norms[largest])
    return _yes(
        "gradients",
        holds=bad or norms[largest] > SPREAD * middle,
        largest=norms[largest],
        at=largest,
        smallest=norms[smallest],
        low=smallest,
        median=middle,
    )


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


def _normalisation(known: Known) -> Answer | None:
    """Whether normalisation layers exist and give an ordinary scale."""
    view = known.view
    if view is None or not any(s.kind == "operator" for s, _ in _measured(view)):
        return None
    sizes = [
        (math.inf if held.is_finite is False else held.amax or 0.0, site)
        for site in normalised(view)
        if (held := view.summary(site)) is not None
    ]
    if not sizes:
        return Answer("normalisation", "no", {"layers": 0}, text="none")
    widest = max(sizes, key=lambda pair: pair[0])
    # A normalised row of n elements cannot exceed sqrt(n) before its scale and bias;
    # beyond a hundred, scale or bias have run away.
    return _yes(
        "normalisation",
        holds=widest[0] <= 100,
        layers=len(sizes),
        amax=widest[0],
        name=widest[1].name,
    )


def _clipping(known: Known) -> Answer | None:
    limit = known.settings.get("clip_norm")
    if isinstance(limit, int | float) and not isinstance(limit, bool):
        return _yes("clipping", holds=True, limit=float(limit))
    norms = [e.value for e in known.events if e.name.startswith("gradient_norm")]
    known_norms = [v for v in norms if isinstance(v, float)]
    if not known_norms and known.trace is not None:
        known_norms = [
            math.hypot(*found.values())
            for key in known.trace.summaries
            if (found := _norms(known.trace.at(*key)))
        ]
    if not known_norms:
        return None
    norm = max(known_norms)
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
    if len(sizes) < 3 or sizes[0] == 0:
        return None
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
    "gradients": _gradients,
    "float32": _float32,
    "device_flag": _device_flag,
    "operator": _operator,
    "normalisation": _normalisation,
    "clipping": _clipping,
    "initialisation": _initialisation,
}
