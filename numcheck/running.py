# SPDX-License-Identifier: Apache-2.0
"""``numcheck run train.py``: an unmodified training script, run under watch."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import click

from numcheck.adapters import adapters
from numcheck.errors import MissingExtraError, NonFiniteError, NumcheckError
from numcheck.options import Options
from numcheck.report.messages import text
from numcheck.shared_options import lang_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from numcheck.monitor import Monitor
    from numcheck.options import Level, OnError
    from numcheck.report.content import Content

__all__ = ["ScriptWatcher", "run"]

CLEAN, FOUND, FAILED, STOPPED = 0, 1, 2, 130


@runtime_checkable
class ScriptWatcher(Protocol):
    """An adapter that can watch a program nobody handed to it."""

    name: str

    def watching(self, options: Options) -> AbstractContextManager[Sequence[Monitor]]:
        """Watch whatever is trained inside the block.

        Args:
            options: how to watch.

        Returns:
            A context manager that yields the monitors; more join as models are found,
            and leaving the block closes them without raising what they found.

        Raises:
            MissingExtraError: the framework is not installed.
        """
        ...


# What follows the script is its own; before it, a mistyped option is a mistake.
@click.command(context_settings={"allow_interspersed_args": False})
@click.option("-m", "module", is_flag=True)
@click.option("--run", "--folder", "folder", type=click.Path())
@click.option(
    "--on-error",
    type=click.Choice(["raise", "warn", "record", "skip"]),
    default="raise",
    show_default=True,
)
@click.option(
    "--level",
    type=click.Choice(["watch", "anchors", "trace"]),
    default="watch",
    show_default=True,
)
@click.option("--every", type=click.IntRange(1))
@click.option("--experiments/--no-experiments", default=True, show_default=True)
@click.option("-o", "--output", type=click.Path(dir_okay=False))
@lang_option
@click.argument("script", metavar="SCRIPT")
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(  # noqa: PLR0913 - one argument for each option
    context: click.Context,
    *,
    module: bool,
    folder: str | None,
    on_error: OnError,
    level: Level,
    every: int | None,
    experiments: bool,
    output: str | None,
    lang: str | None,
    script: str,
    arguments: tuple[str, ...],
) -> None:
    """Run the training SCRIPT with its arguments, unmodified, under watch."""
    from numcheck.report.writing import check_ending, check_place

    # From here: the script may change to another folder.
    target = None if output is None else check_ending(output).absolute()
    kept = None if folder is None else Path(folder).absolute()
    if target is not None:
        check_place(target)  # before hours of training, not after
    options = Options(
        level, every, on_error=on_error, run=kept, experiments=experiments
    )
    start = _starter(script, arguments, is_module=module)
    with contextlib.ExitStack() as stack:
        if lang is not None:
            stack.enter_context(_speaking(lang))
        watched = _watch(stack, options)
        try:
            ended = _outcome(start)
        except KeyboardInterrupt:  # whoever stops a training wants to know, too
            ended = STOPPED
    monitors = [monitor for sequence in watched for monitor in sequence]
    code = _told(monitors, target, lang, has_failed=ended != CLEAN)
    if ended == STOPPED:
        context.exit(STOPPED)
    if ended != CLEAN:
        click.echo(text("run.ended", lang, script=ended, own=code), err=True)
    context.exit(code)


@contextlib.contextmanager
def _speaking(lang: str) -> Iterator[None]:
    """Let what is said while the script runs be said in a language."""
    before = os.environ.get("NUMCHECK_LANG")
    os.environ["NUMCHECK_LANG"] = lang
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("NUMCHECK_LANG", None)  # the script may have taken it out
        else:
            os.environ["NUMCHECK_LANG"] = before


def _watch(stack: contextlib.ExitStack, options: Options) -> list[Sequence[Monitor]]:
    """Let every adapter that can watch; the monitors appear while the script runs."""
    watched, missing = [], "no installed adapter can watch a script"
    for adapter in adapters():
        if isinstance(adapter, ScriptWatcher):
            try:
                watched.append(stack.enter_context(adapter.watching(options)))
            except MissingExtraError as error:
                missing = str(error)
    if not watched:
        raise MissingExtraError(missing)
    return watched


def _starter(
    script: str, arguments: tuple[str, ...], *, is_module: bool
) -> Callable[[], object]:
    """Return what runs the script as Python itself would."""
    if is_module:
        sys.argv = [script, *arguments]
        sys.path.insert(0, str(Path.cwd()))
        return lambda: runpy.run_module(script, run_name="__main__", alter_sys=True)
    place = Path(script)
    if not (place.is_file() or (place / "__main__.py").is_file()):
        raise click.BadParameter(f"no file {script!r}", param_hint="SCRIPT")
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(place.resolve().parent))
    return lambda: runpy.run_path(script, run_name="__main__")


def _outcome(start: Callable[[], object]) -> int:
    """Run the script; return the exit code that it asked for."""
    try:
        start()
    except NonFiniteError:
        return CLEAN  # the report says it all
    except NumcheckError:
        raise
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return int(end.code or CLEAN)
        click.echo(end.code, err=True)
        return 1  # as Python ends
    except Exception as error:  # noqa: BLE001 - shown as Python would show it
        shown = traceback.format_exception(
            type(error), error, _of_script(error.__traceback__)
        )
        click.echo("".join(shown), err=True, nl=False)
        return 1
    return CLEAN


def _of_script(trail: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames that only started the script."""
    starters = (__file__, runpy.__file__, "<frozen runpy>")
    first = trail
    while first is not None and first.tb_frame.f_code.co_filename in starters:
        first = first.tb_next
    return first  # None of a syntax error, which quotes its line itself


def _told(
    monitors: list[Monitor], target: Path | None, lang: str | None, *, has_failed: bool
) -> int:
    """Print the report; return the exit code."""
    from numcheck.report.writing import write_content

    if not monitors and has_failed:
        return FAILED  # its own traceback says why there was nothing to watch
    if not monitors:
        click.echo(text("run.nothing_watched", lang), err=True)
        return FAILED
    content = _together(monitors)
    # First to be read, then into a file that may not be writable any more.
    click.echo(write_content(content, lang=lang), err=True)
    if target is not None:
        write_content(content, target, lang)
    if any(f.severity != "note" for f in content.findings):
        return FOUND
    return FAILED if has_failed else CLEAN


def _together(monitors: list[Monitor]) -> Content:
    """Return one content of all monitors; scalars of several keep apart by number."""
    from numcheck.record.history import TraceHistory
    from numcheck.report.content import content_of

    history = TraceHistory()
    for monitor in monitors:
        if monitor.trace is not None:
            history.add(monitor.trace)
    return content_of(
        tuple(finding for monitor in monitors for finding in monitor.findings),
        history,
        tuple(incident for monitor in monitors for incident in monitor.incidents),
        events=[
            event for monitor in monitors for event in _labelled(monitor, monitors)
        ],
    )


def _labelled(monitor: Monitor, monitors: list[Monitor]) -> Iterator[Any]:
    if len(monitors) == 1:
        yield from monitor.events
        return
    number = monitors.index(monitor) + 1
    for event in monitor.events:
        yield dataclasses.replace(event, name=f"{event.name} (model {number})")
