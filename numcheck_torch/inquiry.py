# SPDX-License-Identifier: Apache-2.0
"""From a step that went wrong, or that is audited, to findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose import diagnose, investigate
from numcheck.diagnose.device import is_flagged
from numcheck.diagnose.incident import Incident
from numcheck.diagnose.laboratory import CannotRunError
from numcheck_torch.sentinel import FLAG
from numcheck_torch.settings import settings_of_run

if TYPE_CHECKING:
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
    settings = settings_of_run(monitor, trace)
    settings["overflow_flag"] = FLAG in reading.bad
    if laboratory.unscaled:
        # Without a scale in play, an overflowing gradient is no search for one.
        settings.pop("dynamic_loss_scale", None)
    incident = Incident(
        trace,
        monitor.step,
        reproduced=reproduced,
        history=tuple(monitor.events),
        settings=settings,
    )
    monitor.keep(incident)
    wanted = monitor.options.experiments and reproduced is True
    found = investigate(incident, laboratory, experiments=wanted)
    monitor.keep(found.incident)
    monitor.deliver(found.findings)


def _replayed(
    monitor: TorchMonitor, laboratory: TorchLaboratory
) -> tuple[Trace, bool | None]:
    """Return the replay's trace and whether it failed; else what was seen."""
    try:
        trace = laboratory.replay()
    except CannotRunError as error:
        monitor.observe(note=f"the failing step could not be replayed: {error}")
        return monitor.observed(), None
    failed = _failed(trace, monitor.step)
    return (trace if failed else monitor.observed()), failed


def audit(monitor: TorchMonitor, laboratory: TorchLaboratory) -> None:
    """Run a healthy step beside float32 and deliver what that shows.

    Raises:
        NonFiniteError: as the user's policy says.
    """
    try:
        trace, departures = laboratory.beside_float32()
    except CannotRunError as error:
        monitor.observe(note=f"step not audited: {error}")
        return
    incident = Incident(
        trace,
        monitor.step,
        reproduced=True,
        departures=departures,
        history=tuple(monitor.events),
        settings=settings_of_run(monitor, trace),
    )
    monitor.keep(incident)
    monitor.deliver(diagnose(incident))


def _failed(trace: Trace, step: int) -> bool:
    view = trace.at(step)
    summaries = [view.summary(site) for site in view.kept()]
    if any(is_flagged(site) for site in trace.sites):
        return True
    return any(s is not None and s.is_finite is False for s in summaries)
