# SPDX-License-Identifier: Apache-2.0
"""What the checks found, as lines for people and as JSON."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from numcheck.report.messages import language, text
from numcheck.report.printable import printable
from numcheck.told_errors import in_words_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.datacheck.problem import Problem

__all__ = ["Checked", "as_data", "page"]


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """What was looked at in one file.

    Attributes:
        file: its path.
        problems: what was found, the worst first.
        arrays: names of the arrays that were looked at.
        elements: in how many elements.
        skipped: arrays and columns that hold no numbers.
        error: why it could not be read to its end; empty when it could.
    """

    file: str
    problems: tuple[Problem, ...]
    arrays: tuple[str, ...]
    elements: int
    skipped: tuple[str, ...] = ()
    error: str = ""

    @property
    def holds_nothing(self) -> bool:
        """Whether it was read and there was no number in it."""
        return not self.elements and not self.error

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found; notes do not count."""
        return all(p.severity == "note" for p in self.problems)


def page(checked: Sequence[Checked], lang: str | None = None) -> str:
    """Return all problems as cards, and below them what was looked at."""
    lines: list[str] = []
    for file in checked:
        for problem in file.problems:
            lines += [*_card(file.file, problem, lang), ""]
        if file.skipped:
            names = ", ".join(file.skipped)
            lines += [text("data.skipped", lang, file=file.file, names=names)]
        if file.holds_nothing:
            lines += [text("data.no_numbers", lang, file=file.file)]
        if file.error:
            error = in_words_of(language(lang), file.error)
            lines += [text("data.unread", lang, error=error)]
    problems = [p for file in checked for p in file.problems]
    counts: dict[str, Any] = {
        severity: sum(p.severity == severity for p in problems)
        for severity in ("error", "warning", "note")
    }
    seen = {
        "files": len(checked),
        "arrays": sum(len(file.arrays) for file in checked),
        "elements": sum(file.elements for file in checked),
    }
    if problems:
        lines.append(text("data.found", lang, **counts))
    elif seen["elements"]:
        lines.append(text("data.nothing", lang))
    lines.append(text("data.seen", lang, **seen))
    return "\n".join(lines)


def _card(file: str, problem: Problem, lang: str | None) -> list[str]:
    title = text(f"rule.{problem.id}.title", lang, **problem.fields)
    lines = [
        f"{text(f'report.level.{problem.severity}', lang)}[{problem.id}]: {title}",
        printable(f"  --> {file}: {problem.place}"),
    ]
    name = text("data.help", lang)
    lines += [f"   = {name}: {text(f'advice.{key}', lang)}" for key in problem.advice]
    return lines


def as_data(checked: Sequence[Checked], lang: str | None = None) -> Mapping[str, Any]:
    """Return all problems as plain data, with the titles in a language."""
    return {
        "version": 1,
        "files": [
            {
                "file": file.file,
                "arrays": list(file.arrays),
                "elements": file.elements,
                "skipped": list(file.skipped),
                "error": file.error,
                "problems": [_row(problem, lang) for problem in file.problems],
            }
            for file in checked
        ],
    }


def _row(problem: Problem, lang: str | None) -> dict[str, Any]:
    return {
        "id": problem.id,
        "severity": problem.severity,
        "title": text(f"rule.{problem.id}.title", lang, **problem.fields),
        "array": problem.array,
        "row": problem.row,
        "column": problem.column,
        "fields": dict(problem.fields),
        "help": [text(f"advice.{key}", lang) for key in problem.advice],
    }
