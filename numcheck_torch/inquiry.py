# SPDX-License-Identifier: Apache-2.0
"""From a step that went wrong, or that is audited, to findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose import diagnose, investigate
from numcheck.diagnose.incident import Incident
from numcheck.diagnose.laboratory import CannotRunError
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
    trace = laboratory.replay()
    incident = Incident(
        trace,
        monitor.step,
        reproduced=_failed(trace, monitor.step),
        history=tuple(monitor.events),
        settings=settings_of_run(monitor, trace),
    )
    monitor.keep(incident)
    findings = investigate(
        incident, laboratory, experiments=monitor.options.experiments
    )
    monitor.deliver(findings)


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
    monitor.record(trace)
    monitor.deliver(diagnose(incident))


def _failed(trace: Trace, step: int) -> bool:
    view = trace.at(step)
    summaries = [view.summary(site) for site in view.kept()]
    return any(s is not None and s.is_finite is False for s in summaries)
