# SPDX-License-Identifier: Apache-2.0
"""Asks the failing program itself: run the step again with one thing changed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from numcheck.diagnose.bisection import carrying_rows
from numcheck.diagnose.device import hidden_faults
from numcheck.diagnose.incident import Experiment
from numcheck.diagnose.laboratory import CannotRunError
from numcheck.diagnose.load import is_low_precision
from numcheck.diagnose.provenance import trace_back

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numcheck.diagnose.finding import Field
    from numcheck.diagnose.incident import ExperimentName, Incident
    from numcheck.diagnose.laboratory import Laboratory, Outcome
    from numcheck.record.site import Site

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
    deadline: float

    def has_time(self) -> bool:
        return time.monotonic() < self.deadline

    def is_healed(self, outcome: Outcome) -> bool:
        """Whether every value that was harmed is finite in that run."""
        if outcome.overflowed:
            return False
        held = [outcome.kept[s.op] for s in self.hurt if s.op in outcome.kept]
        if not held:
            msg = "that run kept none of the values that were harmed"
            raise CannotRunError(msg)
        return all(s.is_finite is not False for s in held)


_Run = Callable[[_Bench], Experiment]


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
    if not hurt:
        hidden = hidden_faults(incident, provenance)
        hurt = next((h.origin.harm for h in hidden if h.is_reported), ())
    if not hurt:
        return {}
    bench = _Bench(incident, laboratory, hurt, time.monotonic() + budget_s)
    plan = _plan(incident)
    done: dict[str, Experiment] = {}
    for place, (name, run) in enumerate(plan):
        if progress is not None:
            progress(name, place, len(plan))
        done[name] = _tried(bench, name, run)
        if name == "float32" and done[name].result == "failed":
            done["float64"] = _tried(bench, "float64", _float64)
    if progress is not None:
        progress("", len(plan), len(plan))
    return done


def _plan(incident: Incident) -> list[tuple[ExperimentName, _Run]]:
    """Return the experiments that can tell something about this step, cheap first."""
    plan: list[tuple[ExperimentName, _Run]] = []
    lower = any(is_low_precision(s) for s in incident.trace.sites if s.kind != "kept")
    plan.append(("float32", _float32) if lower else ("float64", _float64))
    if incident.step > 0:
        plan.append(("initial_parameters", _initial_parameters))
    plan.append(("rows", _rows))
    if incident.settings.get("device", "cpu") != "cpu":
        plan += [("operator_on_cpu", _on_cpu), ("synchronous", _synchronous)]
    return plan


def _tried(bench: _Bench, name: ExperimentName, run: _Run) -> Experiment:
    if not bench.has_time():
        return Experiment(name, "not_run", "the time for experiments was used up")
    try:
        return run(bench)
    except CannotRunError as why:
        return Experiment(name, "not_run", str(why))


def _float32(bench: _Bench) -> Experiment:
    same = bench.laboratory.in_format("same")
    if not _agrees(same, bench.incident, bench.hurt):
        reason = "lifted to its own formats the step does not repeat itself"
        return Experiment("float32", "not_run", reason)
    return _in_format(bench, "float32")


def _float64(bench: _Bench) -> Experiment:
    return _in_format(bench, "float64")


def _in_format(bench: _Bench, name: ExperimentName) -> Experiment:
    outcome = bench.laboratory.in_format("float32" if name == "float32" else "float64")
    healed = bench.is_healed(outcome)
    amaxes = [s.amax for s in outcome.kept.values() if s.amax is not None]
    fields = {"amax": max(amaxes)} if amaxes else {}
    return Experiment(name, "healthy" if healed else "failed", fields=fields)


def _initial_parameters(bench: _Bench) -> Experiment:
    healed = bench.is_healed(bench.laboratory.at_initial_parameters())
    return Experiment("initial_parameters", "healthy" if healed else "failed")


def _on_cpu(bench: _Bench) -> Experiment:
    provenance = trace_back(bench.incident.view)
    hidden = hidden_faults(bench.incident, provenance)
    sites = [o.site for o in (*provenance.origins, *(h.origin for h in hidden))]
    site = next((s for s in sites if s.kind == "operator"), None)
    if site is None:
        return Experiment("operator_on_cpu", "not_run", "no operator is the origin")
    outcome = bench.laboratory.operator_on_cpu(bench.incident.trace, site)
    return Experiment("operator_on_cpu", "healthy" if outcome.is_healthy else "failed")


def _synchronous(bench: _Bench) -> Experiment:
    healed = bench.is_healed(bench.laboratory.one_by_one())
    return Experiment("synchronous", "healthy" if healed else "failed")


def _rows(bench: _Bench) -> Experiment:
    total = bench.laboratory.rows()
    if total is None or total < 2:
        return Experiment("rows", "not_run", "the batch cannot be split into samples")

    def fails(rows: Iterable[int]) -> bool:
        return not bench.is_healed(bench.laboratory.on_rows(tuple(rows)))

    found = carrying_rows(total, fails, bench.has_time)
    fields: dict[str, Field] = {
        "rows": ", ".join(map(str, found.rows)),
        "count": len(found.rows),
        "of": total,
    }
    return Experiment("rows", "healthy" if found.heals else "failed", fields=fields)


def _agrees(outcome: Outcome, incident: Incident, hurt: Iterable[Site]) -> bool:
    """Whether a run gave the recorded step again, as far as summaries tell."""
    seen = {s.op for s in hurt}
    for site in incident.view.kept():
        there, here = outcome.kept.get(site.op), incident.view.summary(site)
        if there is None or here is None:
            continue
        fails = outcome.overflowed or there.is_finite is False
        if site.op in seen and not fails:
            return False
        if here.is_finite and (here.amax, here.n) != (there.amax, there.n):
            return False
    return True
