# SPDX-License-Identifier: Apache-2.0
"""Writing a report: to the terminal always, to a file when given a path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.report.content import Content
from numcheck.report.terminal import terminal_report

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numcheck.diagnose.finding import Evidence, Finding
    from numcheck.diagnose.incident import Experiment, Setting
    from numcheck.record.trace import Event, Trace

__all__ = [
    "ENDINGS",
    "check_ending",
    "check_place",
    "write_file",
    "write_report",
    "write_text",
]

ENDINGS: Final = (".html", ".json", ".sarif")


def write_report(  # noqa: PLR0913 - each is one part of a report
    findings: Iterable[Finding],
    trace: Trace | None,
    *,
    events: Iterable[Event] = (),
    path: str | os.PathLike[str] | None = None,
    lang: str | None = None,
    settings: Mapping[str, Setting] | None = None,
    experiments: Iterable[Experiment] = (),
    notes: Iterable[Evidence] = (),
    departures: Mapping[int, float] | None = None,
    colour: bool | None = False,
) -> str:
    """Return the terminal report; with a path, write a file as well.

    Args:
        findings: the most important first.
        trace: what was recorded; None when nothing was.
        events: scalars and notes by step; the trace's own are added.
        path: where to write; ``.html``, ``.json`` or ``.sarif`` by its ending.
        lang: ``en`` or ``zh``; by default NUMCHECK_LANG, else the locale.
        settings: what is known of the training and of how it was watched.
        experiments: what running the failing step again showed.
        notes: what could not be watched or done.
        departures: relative L2 error of each site's value against its float32 shadow.
        colour: with ANSI colours, or None: on a terminal. Not by default, since the
            text may go anywhere.

    Raises:
        ArgumentError: the path has another ending, or cannot be written.
        ArgumentTypeError: the path is no path.

    Example:
        >>> print(write_report([], None, lang="en"))
        no finding
        what was not watched:
          - nothing was recorded: no step was traced, so operators, headroom and ...
    """
    own = trace.events if trace else ()
    content = Content(
        tuple(findings),
        trace,
        tuple(dict.fromkeys((*own, *events))),
        dict(settings or {}),
        tuple(experiments),
        tuple(notes),
        departures,
    )
    return write_content(content, path, lang, colour=colour)


def write_content(
    content: Content,
    path: str | os.PathLike[str] | None = None,
    lang: str | None = None,
    *,
    colour: bool | None = False,
) -> str:
    """Return the terminal report of a content; see `write_report`."""
    target = None if path is None else check_ending(path)
    if target is not None:
        write_file(content, target, lang)
    return terminal_report(content, lang, colour=colour)


def check_ending(
    path: str | os.PathLike[str], endings: Sequence[str] = ENDINGS
) -> Path:
    """Return the path when its ending names a kind of report.

    Args:
        path: where to write.
        endings: those that are known.

    Raises:
        ArgumentError: it does not.
        ArgumentTypeError: it is no path.
    """
    try:
        target = Path(path)
    except TypeError as error:
        msg = f"path must be a string or a path; got {type(path).__name__}"
        raise ArgumentTypeError(msg) from error
    if target.suffix.lower() not in endings:
        listed = ", ".join(endings)
        one_of = "one of " if len(endings) > 1 else ""
        msg = f"a report's path must end in {one_of}{listed}; got {str(target)!r}"
        raise ArgumentError(msg)
    return target


def check_place(target: Path) -> None:
    """Refuse a place that cannot be written, before the work that fills it.

    Tried for real: what permissions say is not what every file system does. A file
    that is there stays as it is, one that is not is not made.

    Raises:
        ArgumentError: it cannot be written.
    """
    import tempfile

    try:
        if target.exists():
            target.open("ab").close()
        else:
            tempfile.TemporaryFile(dir=target.absolute().parent).close()
    except OSError as error:
        where = f"the report cannot be written to {str(target)!r}"
        msg = f"{where}: {error.strerror}; name another place by --output"
        raise ArgumentError(msg) from error


def write_file(
    content: Content,
    target: Path,
    lang: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the report in the form that the path's ending names.

    Args:
        content: findings and what is known around them.
        target: a path that `check_ending` returned.
        lang: language of the texts; a page holds both and opens in this one.
        progress: called while the trace is read, with steps done and steps in all.

    Raises:
        ArgumentError: the file cannot be written.
    """
    ending = target.suffix.lower()
    if ending == ".json":
        from numcheck.report.json_report import json_report

        text = json_report(content, lang)
    elif ending == ".sarif":
        from numcheck.report.sarif import sarif_report

        text = sarif_report(content, lang)
    else:
        from numcheck.report.page import page

        text = page(content, lang, progress)
    write_text(text, target)


def write_text(text: str, target: Path) -> None:
    """Write a finished report.

    Raises:
        ArgumentError: the file cannot be written.
    """
    try:
        target.write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        msg = f"the report cannot be written to {str(target)!r}: {error}"
        raise ArgumentError(msg) from error
