# SPDX-License-Identifier: Apache-2.0
"""Writing a report: to the terminal always, to a file when given a path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from numcheck.errors import ArgumentError
from numcheck.report.content import Content

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from numcheck.diagnose.finding import Evidence, Finding
    from numcheck.diagnose.incident import Experiment, Setting
    from numcheck.record.trace import Event, Trace

__all__ = ["ENDINGS", "check_ending", "file_text", "write_report"]

ENDINGS: Final = (".html", ".json", ".sarif")


def write_report(
    findings: Iterable[Finding],
    trace: Trace | None,
    *,
    events: Iterable[Event] = (),
    path: str | os.PathLike[str] | None = None,
    lang: str | None = None,
    settings: Mapping[str, Setting] | None = None,
    experiments: Iterable[Experiment] = (),
    notes: Iterable[Evidence] = (),
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

    Raises:
        ArgumentError: the path has another ending; nothing is written.

    Example:
        >>> print(write_report([], None, lang="en"))
        no finding
        what was not watched:
          - nothing was recorded: no step was traced, so operators, headroom and ...
    """
    from numcheck.report.terminal import terminal_report

    target = None if path is None else check_ending(path)
    own = trace.events if trace else ()
    content = Content(
        tuple(findings),
        trace,
        tuple(dict.fromkeys((*own, *events))),
        dict(settings or {}),
        tuple(experiments),
        tuple(notes),
    )
    if target is not None:
        target.write_text(
            file_text(content, target.suffix, lang), "utf-8", newline="\n"
        )
    return terminal_report(content.findings, content.coverage, lang)


def check_ending(path: str | os.PathLike[str]) -> Path:
    """Return the path when its ending names a kind of report.

    Raises:
        ArgumentError: it does not.
    """
    target = Path(path)
    if target.suffix.lower() not in ENDINGS:
        listed = ", ".join(ENDINGS)
        msg = f"a report's path must end in one of {listed}; got {str(target)!r}"
        raise ArgumentError(msg)
    return target


def file_text(content: Content, ending: str, lang: str | None = None) -> str:
    """Return the report in the form that a file's ending names."""
    if ending.lower() == ".json":
        from numcheck.report.json_report import json_report

        return json_report(content, lang)
    if ending.lower() == ".sarif":
        from numcheck.report.sarif import sarif_report

        return sarif_report(content, lang)
    from numcheck.report.page import page

    return page(content, lang)
