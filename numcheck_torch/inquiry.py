# SPDX-License-Identifier: Apache-2.0
"""From a step that went wrong, or that is audited, to findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose import diagnose, investigate, sampled
from numcheck.diagnose.device import is_flagged
from numcheck.diagnose.incident import Incident
from numcheck.diagnose.laboratory import CannotRunError
from numcheck.diagnose.provenance import trace_back
from numcheck.record.notice import notice
from numcheck.report.experimenting import experimenting
from numcheck_torch.distributed import of_rank
from numcheck_torch.distributed.averaged import (
    averaged,
    breaks_when_cast,
    with_ranks_told,
)
from numcheck_torch.reopened import reopened
from numcheck_torch.sentinel import FLAG, local, look
from numcheck_torch.settings import settings_of_run

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding
    from numcheck.record.trace import Trace
    from numcheck_torch.laboratory import TorchLaboratory
    from numcheck_torch.monitor import TorchMonitor
    from numcheck_torch.sentinel import Reading

__all__ = ["audit", "inquire"]


def inquire(
    monitor: TorchMonitor, laboratory: TorchLaboratory, reading: Reading
) -> None:
    """Replay a failing step, find the cause, and deliver the findings.

    Raises:
        NonFiniteError: as the user's policy says.
    """
    trace, reproduced = _replayed(monitor, laboratory)
    step = monitor.step
    was_ruined = bool(_ruined(trace, step))
    earlier = monitor.earlier_laboratory(_bad_now(monitor)) if was_ruined else None
    if earlier is not None and (found_there := _of_update(monitor, earlier)):
        trace, step, reproduced, laboratory = found_there, earlier.step, True, earlier
    elif was_ruined and (recorded := _recorded_update(monitor)) is not None:
        trace, step, reproduced = recorded, step - 1, None
    settings = settings_of_run(monitor, trace)
    settings["overflow_flag"] = FLAG in reading.bad
    if laboratory.unscaled:
        # Without a scale in play, an overflowing gradient is no search for one.
        settings.pop("dynamic_loss_scale", None)
    hook = monitor.ranks.averaging(monitor.model) if reproduced is False else None
    if reproduced is False:
        is_own = hook is not None and _is_cast_away(monitor, laboratory, hook)
    else:
        is_own = _is_own(trace, step)
    if not monitor.ranks.is_ours(is_own=is_own):
        return
    average = None if hook is None else _of_average(monitor, laboratory, hook)
    if average is not None:
        trace, reproduced = average, None
    incident = Incident(
        of_rank(trace, monitor.rank),
        step,
        monitor.rank,
        reproduced=reproduced,
        history=tuple(monitor.events),
        settings=settings,
    )
    monitor.keep(incident)
    wanted = monitor.options.experiments and reproduced is True
    with experimenting() as progress:
        found = investigate(incident, laboratory, experiments=wanted, progress=progress)
    monitor.keep(found.incident)
    said = found.findings
    if settings["overflow_flag"]:
        monitor.judge_flag(in_vain=all(f.severity == "note" for f in said))
    if average is not None:
        said = tuple(with_ranks_told(f, hook or "") for f in said)
    news = [f for f in said if not (_is_ruin(f) and monitor.is_failing)]
    monitor.deliver([reopened(f, laboratory) for f in news])


def _is_ruin(finding: Finding) -> bool:
    """Whether the origin is a parameter: after a failure, that is what it left."""
    site = finding.site
    return (site.kind, site.role) == ("source", "parameter")


def _is_cast_away(
    monitor: TorchMonitor, laboratory: TorchLaboratory, hook: str
) -> bool:
    """Whether this rank's gradients do not survive the cast before the averaging."""
    outcomes = laboratory.outcomes
    if outcomes is None:
        return False
    return breaks_when_cast(outcomes, hook, monitor.ranks.company.reduce_dtypes())


def _of_average(
    monitor: TorchMonitor, laboratory: TorchLaboratory, hook: str
) -> Trace | None:
    """Return this rank's step with the averaging that made its gradients bad."""
    named = monitor.model.named_parameters()
    gradients = {name: local(p.grad) for name, p in named if p.grad is not None}
    try:
        trace, outcomes = laboratory.replay(), laboratory.outcomes
        if outcomes is None:
            return None
        return averaged(
            trace, outcomes, gradients, hook, monitor.ranks.company.reduce_dtypes()
        )
    except Exception as error:  # noqa: BLE001 - an attempt; what was seen is at hand
        monitor.observe(note=notice("notice.not_averaged", why=error))
        return None


def _bad_now(monitor: TorchMonitor) -> tuple[str, ...]:
    """Return the bad parameters, also those that the step did not read."""
    return look(list(monitor.model.named_parameters()), []).bad


def _replayed(
    monitor: TorchMonitor, laboratory: TorchLaboratory
) -> tuple[Trace, bool | None]:
    """Return the replay's trace and whether it failed; else what was seen."""
    try:
        trace = laboratory.replay()
    except CannotRunError as error:
        monitor.observe(note=notice("notice.not_replayed", why=error))
        return _seen(monitor), None
    except Exception:  # noqa: BLE001 - what was seen must be told all the same
        monitor.fault("fault.replay")
        return _seen(monitor), None
    if _failed(trace, monitor.step):
        if not _is_hidden(monitor, trace):
            return trace, True
        monitor.observe(note=notice("notice.not_replayed", why="refusal.loss_hidden"))
        return _seen(monitor), None
    if (told := _asked_compiled(monitor, laboratory)) is not None:
        return told, False
    seen = monitor.observed()
    # A parameter that the step never read was bad before: there is nothing to repeat.
    is_left_over = not _failed(seen, monitor.step, updated=False)
    return seen, None if is_left_over and _failed(seen, monitor.step) else False


def _is_hidden(monitor: TorchMonitor, trace: Trace) -> bool:
    """Whether a step broke inside a loss whose operators nobody sees.

    What came out of it then looks like a constant of the program.
    """
    if not monitor.program.hides_loss:
        return False
    view = trace.at(monitor.step)
    returned = [view.summary(s) for s in view.kept() if s.role == "output"]
    if any(held is not None and held.is_finite is False for held in returned):
        return False
    origins = trace_back(view).origins
    return bool(origins) and all(o.site.role == "constant" for o in origins)


def _seen(monitor: TorchMonitor) -> Trace:
    """Return what is known of a step that cannot be run again."""
    return monitor.recorded() or monitor.observed()


def _is_own(trace: Trace, step: int) -> bool:
    """Whether bad values of the step were made by this process.

    A collective hands out what others made; so does a gradient that nobody saw made.
    """
    view = trace.at(step)
    if any(is_flagged(site) for site in trace.sites):
        return True
    made = [origin.site for origin in trace_back(view).origins]
    return any(
        s.family != "collective" and (s.kind, s.role) != ("kept", "gradient")
        for s in made
    )


def _asked_compiled(monitor: TorchMonitor, laboratory: TorchLaboratory) -> Trace | None:
    """Return the trace of the program as compiled, where that fails by itself."""
    if not monitor.parts.is_any:
        return None
    try:
        trace = laboratory.as_compiled(monitor.parts)
    except Exception as error:  # noqa: BLE001 - an attempt; what was seen is at hand
        monitor.observe(note=notice("notice.compiled_not_asked", why=error))
        return None
    failed = _failed(trace, monitor.step)
    found = "notice.compiled_fails" if failed else "notice.compiled_heals"
    monitor.observe(note=found)
    return trace if failed else None


def _ruined(trace: Trace, step: int) -> tuple[str, ...]:
    """Return the parameters that were bad before the step began."""
    view = trace.at(step)
    found = [s for s in trace.sites if s.kind == "source" and s.role == "parameter"]
    held = [(s.op.removeprefix("parameter:"), view.summary(s)) for s in found]
    return tuple(n for n, s in held if s is not None and s.is_finite is False)


def _of_update(monitor: TorchMonitor, earlier: TorchLaboratory) -> Trace | None:
    """Repeat the update that ruined parameters; its trace, where it ruins them again.

    The parameters are no longer what they were before it, but what usually goes wrong
    in an update (a zero denominator, an epsilon too small) does not depend on them.
    """
    try:
        trace = earlier.replay()
    except Exception:  # noqa: BLE001 - an attempt; the failing step itself is at hand
        return None
    if not _ruins(trace, earlier.step):
        return None
    monitor.observe(note=notice("notice.update_repeated", step=earlier.step))
    return trace


def _recorded_update(monitor: TorchMonitor) -> Trace | None:
    """Return the recorded step before, where its update left bad parameters."""
    before = monitor.step - 1
    trace = monitor.recorded_at(before)
    return trace if trace is not None and _ruins(trace, before) else None


def _ruins(trace: Trace, step: int) -> bool:
    """Whether a step's update left bad parameters."""
    view = trace.at(step)
    updated = [s for s in view.kept() if s.role == "parameter"]
    found = map(view.summary, updated)
    return any(held is not None and held.is_finite is False for held in found)


def audit(monitor: TorchMonitor, laboratory: TorchLaboratory) -> None:
    """Run a healthy step beside float32 and deliver what that shows.

    Raises:
        NonFiniteError: as the user's policy says.
    """
    try:
        trace, departures = laboratory.beside_float32()
    except CannotRunError as error:
        monitor.observe(note=notice("notice.not_audited", why=error))
        return
    hides = monitor.parts.is_any and _failed(trace, monitor.step, updated=False)
    if hides:
        monitor.observe(note="notice.eager_fails")
    monitor.observe(**sampled(trace.at(monitor.step)))
    incident = Incident(
        of_rank(trace, monitor.rank),
        monitor.step,
        monitor.rank,
        reproduced=not hides,
        departures=departures,
        history=tuple(monitor.events),
        settings=settings_of_run(monitor, trace),
    )
    monitor.keep(incident)
    monitor.deliver(diagnose(incident))


def _failed(trace: Trace, step: int, *, updated: bool = True) -> bool:
    """Whether a kept value is bad; `updated` says whether the update's count too.

    The update is the optimizer's, which runs as it is beside a compiled module.
    """
    view = trace.at(step)
    judged = [s for s in view.kept() if updated or s.role not in ("parameter", "state")]
    summaries = [view.summary(site) for site in judged]
    if any(is_flagged(site) for site in trace.sites):
        return True
    return any(s is not None and s.is_finite is False for s in summaries)
