# SPDX-License-Identifier: Apache-2.0
"""Asks the failing program itself: run the step again with one thing changed."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from numcheck.diagnose.bisection import carrying_rows
from numcheck.diagnose.device import hidden_faults
from numcheck.diagnose.incident import Experiment
from numcheck.diagnose.laboratory import CannotRunError
from numcheck.diagnose.load import is_low_precision
from numcheck.diagnose.loss_scaling import scale_in_play
from numcheck.diagnose.moved import has_moved
from numcheck.diagnose.provenance import trace_back

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numcheck.diagnose.finding import Field
    from numcheck.diagnose.incident import ExperimentName, Incident
    from numcheck.diagnose.laboratory import Laboratory, Outcome
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site

    _Format = Literal["bfloat16", "float32", "float64"]

__all__ = ["Progress", "run_experiments"]


class Progress(Protocol):
    """Is told how far the experiments are."""

    def __call__(self, name: str, done: int, total: int) -> None:
        """Take the name of the next experiment, how many are done, and of how many."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class _Bench:
    """The incident on the bench: what must turn finite for it to count as healed."""

    incident: Incident
    laboratory: Laboratory
    hurt: tuple[Site, ...]
    origins: tuple[Site, ...]
    deadline: float
    began: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def operator(self) -> Site:
        """The operator at which the harm began."""
        found = next((s for s in self.origins if s.kind == "operator"), None)
        if found is None:
            raise CannotRunError("refusal.no_operator")
        return found

    def has_time(self) -> bool:
        return time.monotonic() < self.deadline

    def is_healed(self, outcome: Outcome) -> bool:
        """Whether every value that was harmed is finite in that run."""
        if outcome.overflowed:
            return False
        held = [outcome.kept[s.op] for s in self.hurt if s.op in outcome.kept]
        if not held:
            raise CannotRunError("refusal.nothing_kept")
        return all(s.is_finite is not False for s in held)


_Run = Callable[[_Bench], Experiment]
_NOT_RUN = Experiment("float32", "not_run")
_IDLE_S = 5.0
"""Seconds of experiments after which none is started that decides nothing."""


def run_experiments(
    incident: Incident,
    laboratory: Laboratory,
    *,
    budget_s: float = 30.0,
    progress: Progress | None = None,
) -> Mapping[str, Experiment]:
    """Return the experiments that tell the cause of a failure, by name.

    Args:
        incident: the failing step; nothing is run when it did no harm.
        laboratory: runs the step again.
        budget_s: seconds after which no further run is started.
        progress: is told before each experiment.
    """
    searches = bool(incident.settings.get("dynamic_loss_scale"))
    provenance = trace_back(incident.view, searches_scale=searches)
    hurt = provenance.harmed
    hidden = hidden_faults(incident, provenance)
    if not hurt:
        hurt = next((h.origin.harm for h in hidden if h.is_reported), ())
    if not hurt:
        return {}
    found = (*provenance.origins, *(h.origin for h in hidden))
    origins = tuple(o.site for o in found)
    deadline = time.monotonic() + budget_s
    bench = _Bench(incident, laboratory, hurt, origins, deadline)
    plan = _plan(incident, origins)
    done: dict[str, Experiment] = {}
    for place, (name, run) in enumerate(plan):
        if progress is not None:
            progress(name, place, len(plan))
        done[name] = _tried(bench, name, run)
        if _wants_bfloat16(done[name], incident):
            done["bfloat16"] = _tried(bench, "bfloat16", _bfloat16)
    if done.get("float32", _NOT_RUN).result == "failed":
        done["float64"] = _tried(bench, "float64", _float64)
    if progress is not None:
        progress("", len(plan), len(plan))
    return done


def _plan(
    incident: Incident, origins: tuple[Site, ...]
) -> list[tuple[ExperimentName, _Run]]:
    """Return the experiments that can tell something about this step, cheap first."""
    plan: list[tuple[ExperimentName, _Run]] = []
    lower = any(is_low_precision(s) for s in incident.trace.sites if s.kind != "kept")
    if lower:
        plan.append(("float32", _float32))
    if origins and origins[0].kind == "operator":
        plan.append(("operator_wider", _operator_wider))
    if has_moved(incident):
        plan.append(("initial_parameters", _initial_parameters))
    in_backward = any(site.phase in ("backward", "recompute") for site in origins)
    if lower and in_backward and scale_in_play(incident) is not None:
        plan.append(("without_loss_scale", _without_loss_scale))
    if any(site.phase == "optimizer" for site in origins):
        plan.append(("with_clipping", _with_clipping))
    plan.append(("rows", _rows))
    if incident.settings.get("device", "cpu") != "cpu":
        plan += [("operator_on_cpu", _on_cpu), ("synchronous", _synchronous)]
    if not lower:
        # It decides nothing by itself, so that it may be left out for want of time.
        plan.append(("float64", _float64))
    return plan


def _wants_bfloat16(done: Experiment, incident: Incident) -> bool:
    """Whether float32's range healed a step that bfloat16's might heal as well."""
    if (done.name, done.result) != ("float32", "healthy"):
        return False
    if incident.settings.get("bfloat16_supported") is False:
        return False
    return any(site.dtype == "float16" for site in incident.trace.sites)


def _tried(bench: _Bench, name: ExperimentName, run: _Run) -> Experiment:
    if not bench.has_time():
        return Experiment(name, "not_run", "refusal.no_time")
    try:
        return run(bench)
    except CannotRunError as why:
        return Experiment(name, "not_run", str(why))
    except Exception as error:  # noqa: BLE001 - the user's program runs inside
        first = (str(error).splitlines() or [""])[0]
        return Experiment(name, "not_run", f"{type(error).__name__}: {first}")


def _float32(bench: _Bench) -> Experiment:
    same = bench.laboratory.in_format("same")
    if not _agrees(same, bench.incident, bench.hurt):
        return Experiment("float32", "not_run", "refusal.lift_unfaithful")
    return _in_format(bench, "float32")


def _float64(bench: _Bench) -> Experiment:
    """Run the step in float64, which decides nothing by itself: where time allows."""
    if time.monotonic() - bench.began > _IDLE_S:
        raise CannotRunError("refusal.decides_nothing")
    return _in_format(bench, "float64")


def _bfloat16(bench: _Bench) -> Experiment:
    return _in_format(bench, "bfloat16")


def _in_format(bench: _Bench, name: _Format) -> Experiment:
    outcome = bench.laboratory.in_format(name)
    healed = bench.is_healed(outcome)
    return Experiment(name, _result(healed=healed), fields=_largest(outcome))


def _result(*, healed: bool) -> Literal["healthy", "failed"]:
    return "healthy" if healed else "failed"


def _largest(outcome: Outcome) -> dict[str, Field]:
    amaxes = [s.amax for s in outcome.kept.values() if s.amax is not None]
    return {"amax": max(amaxes)} if amaxes else {}


def _operator_wider(bench: _Bench) -> Experiment:
    site = bench.operator
    if site.dtype == "float64":
        raise CannotRunError("refusal.widest")
    wider: Literal["float32", "float64"]
    wider = "float32" if is_low_precision(site) else "float64"
    outcome = bench.laboratory.operator_wider(bench.incident.trace, site, wider)
    fields: dict[str, Field] = {
        "site": site.index,
        "op": site.op,
        "dtype": wider,
        "amax": math.nan,
        **_largest(outcome),
    }
    result = _result(healed=outcome.is_healthy)
    return Experiment("operator_wider", result, fields=fields)


def _without_loss_scale(bench: _Bench) -> Experiment:
    """Run the step unscaled; where that heals, find the largest scale that does."""
    factor = scale_in_play(bench.incident)
    if factor is None:
        raise CannotRunError("refusal.no_loss_scale")

    def heals(scale: float) -> bool:
        return bench.is_healed(bench.laboratory.with_loss_scale(factor, scale))

    fields: dict[str, Field] = {"scale": factor}
    if not heals(1.0):
        return Experiment("without_loss_scale", "failed", fields=fields)
    low, high = 0, math.ceil(math.log2(factor))
    while high - low > 1 and bench.has_time():
        middle = (low + high) // 2
        low, high = (middle, high) if heals(2.0**middle) else (low, middle)
    fields["largest"] = 2.0**low
    return Experiment("without_loss_scale", "healthy", fields=fields)


_CLIP_NORM = 1.0
"""The norm to which gradients are clipped by custom."""


def _with_clipping(bench: _Bench) -> Experiment:
    known = bench.incident.settings.get("clip_norm")
    limit = float(known) if isinstance(known, int | float) else _CLIP_NORM
    healed = bench.is_healed(bench.laboratory.with_clipping(limit))
    fields: dict[str, Field] = {"limit": limit}
    return Experiment("with_clipping", _result(healed=healed), fields=fields)


def _initial_parameters(bench: _Bench) -> Experiment:
    healed = bench.is_healed(bench.laboratory.at_initial_parameters())
    return Experiment("initial_parameters", _result(healed=healed))


def _on_cpu(bench: _Bench) -> Experiment:
    site = bench.operator
    kept = bench.laboratory.operator_on_cpu(bench.incident.trace, site).kept
    fields: dict[str, Field] = {}
    if "operands" in kept:
        fields["operands_finite"] = int(kept["operands"].is_finite is not False)
    healed = kept["result"].is_finite is not False
    return Experiment("operator_on_cpu", _result(healed=healed), fields=fields)


def _synchronous(bench: _Bench) -> Experiment:
    healed = bench.is_healed(bench.laboratory.one_by_one())
    return Experiment("synchronous", _result(healed=healed))


def _rows(bench: _Bench) -> Experiment:
    total = bench.laboratory.rows()
    if total is None or total < 2:
        return Experiment("rows", "not_run", "refusal.no_samples")

    def fails(rows: Iterable[int]) -> bool:
        return not bench.is_healed(bench.laboratory.on_rows(tuple(rows)))

    found = carrying_rows(total, fails, bench.has_time)
    fields: dict[str, Field] = {
        "rows": ", ".join(map(str, found.rows)),
        "count": len(found.rows),
        "of": total,
    }
    if found.together:
        fields["together"] = 1
    return Experiment("rows", _result(healed=found.heals), fields=fields)


def _agrees(outcome: Outcome, incident: Incident, hurt: Iterable[Site]) -> bool:
    """Whether a run gave the recorded step again, as far as summaries tell."""
    seen = {s.op for s in hurt}
    # A step of several losses holds each, a run of it all of them as one.
    held: dict[str, Summary] = {}
    for site in incident.view.kept():
        one = incident.view.summary(site)
        if one is not None:
            held[site.op] = held[site.op].merge(one) if site.op in held else one
    for op, here in held.items():
        there = outcome.kept.get(op)
        if there is None:
            continue
        fails = outcome.overflowed or there.is_finite is False
        if op in seen and not fails:
            return False
        if here.is_finite and (here.amax, here.n) != (there.amax, there.n):
            return False
    return True
