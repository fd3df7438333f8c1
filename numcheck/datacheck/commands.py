# SPDX-License-Identifier: Apache-2.0
"""The command ``numcheck data``."""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING

import click

from numcheck.report.messages import text
from numcheck.shared_options import lang_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numcheck.datacheck.page import Checked
    from numcheck.datacheck.piece import Unread
    from numcheck.datacheck.settings import Settings

__all__ = ["data"]

_SOON_S = 1.0


@click.command()
@click.argument("path", metavar="FILE|FOLDER", type=click.Path())
@click.option("--dtype", metavar="NAME")
@click.option("--classes", type=click.IntRange(1))
@click.option("--labels", multiple=True, metavar="NAME")
@click.option("--ignore-index", default=-100)
@click.option("--json", "as_json", is_flag=True)
@lang_option
@click.pass_context
def data(
    context: click.Context,
    path: str,
    dtype: str | None,
    classes: int | None,
    labels: tuple[str, ...],
    ignore_index: int,
    as_json: bool,  # noqa: FBT001 - click passes options by keyword
    lang: str | None,
) -> None:
    """Check the arrays of FILE, or of all files below FOLDER, before training."""
    from numcheck.calculator._plain import as_json as plain_json
    from numcheck.datacheck.files import files_in
    from numcheck.datacheck.page import as_data, page
    from numcheck.datacheck.settings import Settings
    from numcheck.formats import get

    name = None if dtype is None else get(dtype).name
    settings = Settings(name, classes, labels, ignore_index)
    files = files_in(path)
    with _progress(files, lang) as advance:
        checked = [_checked(file, settings, advance) for file in files]
    _require(labels, checked)
    click.echo(plain_json(as_data(checked, lang)) if as_json else page(checked, lang))
    if any(file.error for file in checked) or all(c.holds_nothing for c in checked):
        context.exit(2)
    context.exit(0 if all(file.is_clean for file in checked) else 1)


def _checked(file: Path, settings: Settings, advance: Callable[[int], None]) -> Checked:
    """Return what a file shows, up to where it can be read."""
    from numcheck.datacheck.checks.text_among_numbers import (
        text_among_numbers,
        without_text,
    )
    from numcheck.datacheck.files import pieces
    from numcheck.datacheck.layout import is_numeric
    from numcheck.datacheck.page import Checked
    from numcheck.datacheck.stream import Stream
    from numcheck.errors import DumpError, MissingExtraError

    stream = Stream(settings)
    skipped: dict[str, None] = {}
    unread: dict[str, Unread] = {}
    error = ""
    try:
        for piece in pieces(file, settings.labels):
            if not is_numeric(piece.array.dtype):
                skipped[piece.name] = None
            skipped.update(dict.fromkeys(piece.skipped))
            for cells in piece.unread:
                known = unread.get(cells.column)
                unread[cells.column] = cells if known is None else known.merge(cells)
            stream.add(piece.name, piece.array, piece.columns)
            advance(piece.read_bytes)
    except (DumpError, MissingExtraError) as why:
        error = str(why)
    found = stream.subjects
    texts = tuple(text_among_numbers(cells) for cells in unread.values())
    problems = without_text(stream.problems(), unread.values())
    return Checked(
        str(file),
        (*problems, *texts),
        tuple(found),
        sum(math.prod(subject.shape) for subject in found.values()),
        tuple(skipped),
        error,
    )


def _require(labels: Sequence[str], checked: Sequence[Checked]) -> None:
    """Refuse a name of labels that nothing has: it would be silently not checked."""
    from numcheck.errors import ArgumentError

    known = sorted({name for file in checked for name in file.arrays})
    for name in labels:
        if name not in known and not any(file.error for file in checked):
            held = ", ".join(known)
            raise ArgumentError(f"nothing is called {name!r}; there is {held}")


@contextlib.contextmanager
def _progress(
    files: Sequence[Path], lang: str | None
) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error once reading takes longer than a second."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    bar = Progress(console=console, transient=True, disable=not console.is_terminal)
    total = sum(file.stat().st_size for file in files)
    task = bar.add_task(text("data.reading", lang), total=total)
    begin = time.monotonic()

    def advance(size: int) -> None:
        bar.advance(task, size)
        if not bar.live.is_started and time.monotonic() - begin > _SOON_S:
            bar.start()

    try:
        yield advance
    finally:
        if bar.live.is_started:  # stopped unstarted, a bar may still end its line
            bar.stop()
