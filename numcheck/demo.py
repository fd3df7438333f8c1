# SPDX-License-Identifier: Apache-2.0
"""``numcheck demo``: a real training that breaks, found and explained."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

import click

from numcheck.adapters import adapters
from numcheck.errors import ArgumentError, MissingExtraError
from numcheck.record.history import TraceHistory
from numcheck.report.content import content_of
from numcheck.report.messages import text
from numcheck.report.writing import check_ending, check_place, write_content
from numcheck.shared_options import lang_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numcheck.adapters import Adapter
    from numcheck.monitor import Monitor
    from numcheck.report.content import Content

__all__ = ["demo"]


@click.command()
@click.option("--framework", "wanted", multiple=True)
@click.option(
    "--output",
    default="report.html",
    show_default=True,
    type=click.Path(dir_okay=False),
)
@lang_option
def demo(wanted: tuple[str, ...], output: str, lang: str | None) -> None:
    """Break a small float16 training in each framework, explain it, write a page."""
    check_place(check_ending(output))
    monitors = {
        a.name: m for a in _chosen(wanted) if (m := _demonstrate(a, lang)) is not None
    }
    if not monitors:
        msg = "no framework is installed: pip install 'numcheck[torch,jax,flax]'"
        raise MissingExtraError(msg)
    content = _together(monitors)
    click.echo(write_content(content, lang=lang))
    write_content(content, output, lang)
    click.echo(text("demo.written", lang, path=output))


def _chosen(wanted: tuple[str, ...]) -> Iterable[Adapter]:
    known = {a.name: a for a in adapters()}
    for name in wanted:
        if name not in known:
            msg = f"no framework {name!r}; installed adapters: {', '.join(known)}"
            raise ArgumentError(msg)
    return [known[name] for name in wanted or known]


def _demonstrate(adapter: Adapter, lang: str | None) -> Monitor | None:
    click.echo(text("demo.training", lang, framework=adapter.name), err=True)
    started = time.perf_counter()
    try:
        monitor = adapter.demonstrate()
    except MissingExtraError as missing:
        click.echo(text("demo.left_out", lang, why=missing), err=True)
        return None
    steps = [f.step for f in monitor.findings if f.severity == "error"]
    took = {"seconds": round(time.perf_counter() - started)}
    fields = {"step": min(steps)} | took if steps else took
    click.echo(text(f"demo.{'broke' if steps else 'held'}", lang, **fields), err=True)
    return monitor


def _together(monitors: Mapping[str, Monitor]) -> Content:
    """Return one content of all frameworks; their scalars keep apart by name."""
    history = TraceHistory()
    for monitor in monitors.values():
        if monitor.trace is not None:
            history.add(monitor.trace)
    events = [
        dataclasses.replace(event, name=f"{event.name} ({name})")
        for name, monitor in monitors.items()
        for event in monitor.events
    ]
    return content_of(
        tuple(f for m in monitors.values() for f in m.findings),
        history,
        tuple(i for m in monitors.values() for i in m.incidents),
        events=events,
    )
