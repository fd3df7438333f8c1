# SPDX-License-Identifier: Apache-2.0
"""A past run, diagnosed again with today's rules."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck.diagnose import diagnose
from numcheck.diagnose.incident_json import incident_from_json
from numcheck.record.damage import DAMAGE
from numcheck.record.history import TraceHistory
from numcheck.record.notice import notice
from numcheck.record.run_folder import open_run
from numcheck.report.content import content_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from numcheck.diagnose.finding import Finding
    from numcheck.diagnose.incident import Incident
    from numcheck.record.run_folder import Run
    from numcheck.report.content import Content

__all__ = ["content_of_run", "counted"]

_ORDER = ("error", "warning", "note")
_MOST_SUMMARIES = 1_200_000
"""About as many as the map has cells; beyond, some of the steps are read."""


def content_of_run(folder: str | os.PathLike[str]) -> Content:
    """Return what a run folder has to say.

    Raises:
        RunFolderError: the folder is missing, foreign, or from a later numcheck.
    """
    run = open_run(folder, _MOST_SUMMARIES)
    unread = list(run.notes)
    incidents = _incidents(run, unread)
    findings = counted(f for i in incidents for f in _diagnosed(i, unread))
    history = TraceHistory()
    history.add(run.trace)
    return content_of(
        findings,
        history,
        incidents,
        events=run.trace.events,
        meta=run.trace.meta,
        unread=unread,
        recorded=run.recorded,
    )


def _diagnosed(incident: Incident, unread: list[str]) -> tuple[Finding, ...]:
    """Return an incident's findings; what damage makes of it hides no other's."""
    try:
        return diagnose(incident)
    except DAMAGE as error:
        unread.append(_lost(incident.step, error))
        return ()


def _incidents(run: Run, unread: list[str]) -> Sequence[Incident]:
    """Return the failing steps, the first step and rank to fail first."""
    found = []
    for files in run.incidents:
        try:
            incident = incident_from_json(
                files.trace, files.step, files.rank, files.known
            )
        except DAMAGE as error:
            unread.append(_lost(files.step, error))
            continue
        found.append(incident)
    return sorted(found, key=lambda incident: (incident.step, incident.rank))


def _lost(step: int, error: Exception) -> str:
    return notice("unread.incident", step=step, error=repr(error))


def counted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return each origin once, with how often it failed, the most severe first."""
    known: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.id, finding.site.scope, finding.site.op)
        before = known.get(key)
        known[key] = (
            finding
            if before is None
            else dataclasses.replace(before, count=before.count + finding.count)
        )
    return tuple(sorted(known.values(), key=lambda f: _ORDER.index(f.severity)))
