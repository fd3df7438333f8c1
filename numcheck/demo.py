# SPDX-License-Identifier: Apache-2.0
"""``numcheck demo``: a real training that breaks, found and explained."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from numcheck.adapters import adapters
from numcheck.errors import ArgumentError, MissingExtraError
from numcheck.record.history import TraceHistory
from numcheck.report import write_report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.adapters import Adapter
    from numcheck.monitor import Monitor
    from numcheck.record.trace import Trace

__all__ = ["demo"]


@click.command()
@click.option(
    "--framework",
    "wanted",
    multiple=True,
    help="Only this framework; by default every one that is installed.",
)
@click.option(
    "--output",
    default="report.html",
    show_default=True,
    type=click.Path(dir_okay=False),
    help="Where to write the page.",
)
def demo(wanted: tuple[str, ...], output: str) -> None:
    """Break a small float16 training in each framework, explain it, write a page."""
    monitors = [m for a in _chosen(wanted) if (m := _demonstrate(a)) is not None]
    if not monitors:
        msg = "no framework is installed: pip install 'numcheck[torch,jax,flax]'"
        raise MissingExtraError(msg)
    findings = tuple(f for m in monitors for f in m.findings)
    events = tuple(e for m in monitors for e in m.events)
    text = write_report(findings, _together(monitors), events=events, path=output)
    click.echo(text)
    click.echo(f"report written to {output}")


def _chosen(wanted: tuple[str, ...]) -> Iterable[Adapter]:
    known = {a.name: a for a in adapters()}
    for name in wanted:
        if name not in known:
            msg = f"no framework {name!r}; installed adapters: {', '.join(known)}"
            raise ArgumentError(msg)
    return [known[name] for name in wanted or known]


def _demonstrate(adapter: Adapter) -> Monitor | None:
    click.echo(f"training a small language model in {adapter.name} …", err=True)
    started = time.perf_counter()
    try:
        monitor = adapter.demonstrate()
    except MissingExtraError as missing:
        click.echo(f"  left out: {missing}", err=True)
        return None
    took = time.perf_counter() - started
    click.echo(
        f"  broke at step {monitor.step}, explained after {took:.1f} s", err=True
    )
    return monitor


def _together(monitors: Iterable[Monitor]) -> Trace | None:
    history = TraceHistory()
    for monitor in monitors:
        if monitor.trace is not None:
            history.add(monitor.trace)
    return history.trace
