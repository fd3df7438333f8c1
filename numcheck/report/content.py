# SPDX-License-Identifier: Apache-2.0
"""What goes into a report, whatever its form."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck.report.coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.diagnose.finding import Evidence, Finding
    from numcheck.diagnose.incident import Experiment, Incident, Setting
    from numcheck.record.history import TraceHistory
    from numcheck.record.trace import Event, Trace

__all__ = ["Content", "content_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class Content:
    """Findings and everything known around them.

    Attributes:
        findings: the most important first.
        trace: what was recorded; None when nothing was.
        events: scalars and notes by step.
        settings: what is known of the training.
        experiments: what running the failing step again showed.
        notes: what could not be watched or done.
        departures: relative L2 error of each site's value against its float32 shadow,
            by site index.
        unread: what of a run folder could not be read, in its reader's words.
        recorded: how many steps were recorded, where not all were read.
    """

    findings: Sequence[Finding]
    trace: Trace | None = None
    events: Sequence[Event] = ()
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    experiments: Sequence[Experiment] = ()
    notes: Sequence[Evidence] = ()
    departures: Mapping[int, float] | None = None
    unread: Sequence[str] = ()
    recorded: int | None = None

    @property
    def coverage(self) -> Coverage:
        """What was watched and what was not."""
        return Coverage(
            self.trace,
            self.events,
            self.settings,
            self.notes,
            self.departures is not None,
            self.unread,
            self.recorded,
        )


def content_of(
    findings: Sequence[Finding],
    history: TraceHistory,
    incidents: Sequence[Incident],
    *,
    events: Sequence[Event] = (),
    meta: Mapping[str, object] | None = None,
    unread: Sequence[str] = (),
    recorded: int | None = None,
) -> Content:
    """Return what a run has to say.

    Args:
        findings: the most important first.
        history: what was recorded; the incidents' traces are added to it.
        incidents: failing and audited steps, the first to fail first.
        events: scalars and notes by step.
        meta: what is known of the program.
        unread: what of a run folder could not be read.
        recorded: how many steps were recorded, where not all were read.
    """
    departures: dict[int, float] | None = None
    for incident in incidents:
        places = history.add(incident.trace)
        if departures is None and incident.departures is not None:
            departures = {places[i]: e for i, e in incident.departures.items()}
    trace = history.trace
    failing = [i for i in incidents if i.departures is None] or list(incidents)
    return Content(
        findings,
        None if trace is None else dataclasses.replace(trace, meta=dict(meta or {})),
        tuple(events),
        failing[0].settings if failing else {},
        tuple(failing[0].experiments.values()) if failing else (),
        tuple(note for incident in incidents for note in incident.notes),
        departures,
        unread,
        history.recorded if recorded is None else recorded,
    )
