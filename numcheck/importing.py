# SPDX-License-Identifier: Apache-2.0
"""The command ``numcheck import``: the dump of another tool, diagnosed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from numcheck.report.busy import busy
from numcheck.report.messages import text
from numcheck.shared_options import (
    colour_option,
    lang_option,
    outputs_option,
    width_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numcheck.diagnose import Incident
    from numcheck.diagnose.finding import Finding
    from numcheck.diagnose.incident import Setting
    from numcheck.record.trace import Event, Trace

__all__ = ["import_", "incidents_of"]

_FRAMEWORKS = {"pytorch": "torch"}


@click.command(name="import")
@click.argument("dump", metavar="DUMP", type=click.Path())
@click.option("--run", metavar="OUT", type=click.Path(file_okay=False))
@outputs_option
@lang_option
@width_option
@colour_option
@click.pass_context
def import_(
    context: click.Context,
    dump: str,
    run: str | None,
    outputs: tuple[str, ...],
    lang: str | None,
    width: int | None,
    colour: bool | None,  # noqa: FBT001 - click passes options by keyword
) -> None:
    """Diagnose DUMP, a folder that msprobe or CANN's overflow detection wrote."""
    from numcheck.diagnose import diagnose
    from numcheck.record.foreign import read_dump, read_steps
    from numcheck.report.content import Content
    from numcheck.report.past_run import counted
    from numcheck.report.terminal import terminal_report
    from numcheck.report.writing import check_ending, write_file

    targets = [check_ending(path) for path in outputs]
    with busy(dump):
        incidents = incidents_of(read_steps(dump))
        found = [*_without_ruins(incidents, map(diagnose, incidents))]
        if run is not None:
            _keep(run, incidents, found)
        whole = read_dump(dump)
    content = Content(
        counted(f for findings in found for f in findings),
        dataclasses.replace(whole, events=()),
        whole.events,
        settings=incidents[0].settings,
        unread=whole.meta["notes"],
    )
    for target in targets:
        write_file(content, target, lang)
    click.echo(terminal_report(content, lang, width, colour), nl=False, color=True)
    if run is not None:
        click.echo(text("import.kept", lang, path=run))
    context.exit(int(any(f.severity != "note" for f in content.findings)))


def incidents_of(steps: Sequence[Trace]) -> tuple[Incident, ...]:
    """Return each step of a dump as an incident that knows the steps before it.

    Args:
        steps: traces of one step of one rank each, as `read_steps` returns them.
    """
    from numcheck.diagnose import Incident

    found = []
    history: dict[int, tuple[Event, ...]] = {}
    for trace in steps:
        ((step, rank),) = trace.summaries
        before = history.get(rank, ())
        history[rank] = (*before, *trace.events)
        settings = _settings(trace)
        found.append(Incident(trace, step, rank, history=before, settings=settings))
    return tuple(found)


def _without_ruins(
    incidents: Iterable[Incident], found: Iterable[tuple[Finding, ...]]
) -> Iterator[tuple[Finding, ...]]:
    """Yield each step's findings, less the parameters that a step before it ruined."""
    is_failing: dict[int, bool] = {}
    for incident, findings in zip(incidents, found, strict=True):
        was_failing = is_failing.get(incident.rank, False)
        is_failing[incident.rank] = any(f.severity == "error" for f in findings)
        yield tuple(f for f in findings if not (was_failing and _is_ruin(f)))


def _is_ruin(finding: Finding) -> bool:
    """Whether the origin is a parameter: after a failure, that is what it left."""
    return (finding.site.kind, finding.site.role) == ("source", "parameter")


def _settings(trace: Trace) -> dict[str, Setting]:
    known: dict[str, Setting] = {}
    framework = _FRAMEWORKS.get(str(trace.meta.get("framework")))
    if framework is not None:
        known["framework"] = framework
    for event in trace.events:
        if event.name == "loss_scale" and isinstance(event.value, float):
            known["loss_scale"] = event.value
    return known


def _keep(
    run: str | Path,
    incidents: Sequence[Incident],
    found: Sequence[tuple[Finding, ...]],
) -> None:
    """Write a run folder: every step, and the failing ones as incidents."""
    from numcheck.monitor import Monitor
    from numcheck.options import Options

    monitors: dict[int, Monitor] = {}
    options = Options(run=run, on_error="record", experiments=False)
    for incident, findings in zip(incidents, found, strict=True):
        trace, rank = incident.trace, incident.rank
        if rank not in monitors:
            meta = {k: v for k, v in trace.meta.items() if k != "notes"}
            monitors[rank] = Monitor(options, rank=rank, **meta)
        monitor = monitors[rank]
        monitor.step = incident.step
        monitor.events.extend(trace.events)
        monitor.record(trace)
        if findings:
            monitor.keep(incident)
            monitor.deliver(findings)
    for monitor in monitors.values():
        monitor.close()
