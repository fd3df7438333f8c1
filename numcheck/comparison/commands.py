# SPDX-License-Identifier: Apache-2.0
"""The command ``numcheck compare``: two runs, and where they part."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from numcheck.comparison.departure import compare_traces
from numcheck.errors import ArgumentError, RunFolderError
from numcheck.report.busy import busy
from numcheck.shared_options import lang_option, width_option

if TYPE_CHECKING:
    from numcheck.record.trace import Trace

__all__ = ["compare"]

_ARRAYS: Final = (".npy", ".npz", ".pt", ".pth", ".safetensors")


@click.command()
@click.argument("a", metavar="A", type=click.Path())
@click.argument("b", metavar="B", type=click.Path())
@click.option("--step-a", type=int)
@click.option("--step-b", type=int)
@click.option("--map", "maps", multiple=True, metavar="NAME=NAME")
@click.option("-o", "--output", metavar="PATH", type=click.Path(dir_okay=False))
@click.option("--all", "whole", is_flag=True)
@lang_option
@width_option
@click.pass_context
def compare(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: click.Context,
    a: str,
    b: str,
    step_a: int | None,
    step_b: int | None,
    maps: tuple[str, ...],
    output: str | None,
    whole: bool,  # noqa: FBT001 - click passes options by keyword
    lang: str | None,
    width: int | None,
) -> None:
    """Compare two runs and name the first place where they part."""
    from numcheck.report.comparison import comparison_table
    from numcheck.report.writing import check_ending, write_text

    names = dict(_split(m) for m in maps)
    target = None if output is None else check_ending(output, (".html",))
    with busy(f"{a} {b}"):
        result = compare_traces(
            trace_at(a), trace_at(b), step_a=step_a, step_b=step_b, names=names
        )
    if target is not None:
        from numcheck.report.comparison_page import comparison_page

        write_text(comparison_page(result, a, b, lang), target)
    click.echo(
        comparison_table(result, a, b, whole=whole, lang=lang, width=width),
        nl=False,
        color=True,
    )
    parted = int(result.first_difference is not None)
    context.exit(parted if result.departures else 2)


def _split(pair: str) -> tuple[str, str]:
    left, equals, right = pair.partition("=")
    if not (left and equals and right):
        msg = f"--map expects NAME=NAME, got {pair!r}"
        raise ArgumentError(msg)
    return left, right


def trace_at(path: str) -> Trace:
    """Return the trace of a run folder, or of another tool's dump.

    The replays of a run's failing and audited steps are part of it: they know every
    operator, where the run itself may know only what a step handed back.

    Raises:
        RunFolderError: the path is neither.
        DumpError: it is a dump that cannot be read.
    """
    from numcheck.record.foreign import read_dump
    from numcheck.record.history import TraceHistory
    from numcheck.record.run_folder import open_run

    if Path(path).suffix in _ARRAYS and Path(path).is_file():
        msg = (
            f"{path!r} is a file of arrays, and runs are compared here; two arrays are "
            "by numcheck.compare(a, b) in Python"
        )
        raise RunFolderError(msg)
    if any(Path(path).glob("step*")):
        return read_dump(path)
    run = open_run(path)
    history = TraceHistory()
    for trace in (run.trace, *(i.trace for i in run.incidents)):
        history.add(trace)
    together = history.trace or run.trace
    meta = {**run.trace.meta, "notes": run.notes}
    return type(together)(together.sites, together.summaries, run.trace.events, meta)
