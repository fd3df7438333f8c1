# SPDX-License-Identifier: Apache-2.0
"""What goes into a report, whatever its form."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck.report.coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.diagnose.finding import Evidence, Finding
    from numcheck.diagnose.incident import Experiment, Setting
    from numcheck.record.trace import Event, Trace

__all__ = ["Content"]


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
    """

    findings: Sequence[Finding]
    trace: Trace | None = None
    events: Sequence[Event] = ()
    settings: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    experiments: Sequence[Experiment] = ()
    notes: Sequence[Evidence] = ()
    departures: Mapping[int, float] | None = None
    unread: Sequence[str] = ()

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
        )
