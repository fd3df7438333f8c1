# SPDX-License-Identifier: Apache-2.0
"""The ten questions and their answers, for the terminal and the page."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from numcheck.diagnose.triage import Known, triage
from numcheck.report.figures import bits_text
from numcheck.report.messages import LANGUAGES, text
from numcheck.report.styled import drawn, hanging, joined

if TYPE_CHECKING:
    from numcheck.diagnose.triage import Answer
    from numcheck.report.content import Content

__all__ = ["answers", "triage_rows", "triage_text"]

_STYLES = {"yes": "bold", "no": "bold", "not_measured": "dim", "not_applicable": "dim"}


def answers(content: Content) -> tuple[Answer, ...]:
    """Return the ten answers that a report's content gives."""
    return triage(
        Known(
            content.trace,
            content.findings,
            content.settings,
            content.experiments,
            content.events,
            content.departures,
        )
    )


def triage_text(
    content: Content, lang: str | None = None, width: int | None = None
) -> str:
    """Return the ten questions with their answers, one below the other."""
    room = width or shutil.get_terminal_size().columns
    lines = [joined((text("triage.title", lang), "bold"))]
    lines += hanging(joined(""), "", joined(text("triage.intro", lang)), room)
    for number, answer in enumerate(answers(content), 1):
        title = text(f"triage.{answer.question}.title", lang)
        verdict = text(f"triage.verdict.{answer.verdict}", lang)
        head = joined(title, "  ", (verdict, _STYLES[answer.verdict]))
        lines += hanging(joined(f"{number:>2}. "), "    ", head, room)
        if answer.verdict != "not_measured":
            lines += hanging(joined("    "), "    ", joined(_said(answer, lang)), room)
    return drawn(lines, room, colour=False)


def triage_rows(content: Content) -> list[dict[str, Any]]:
    """Return question, verdict and answer in both languages, for the page."""
    rows = []
    for answer in answers(content):
        measured = answer.verdict != "not_measured"
        rows.append(
            {
                "title": _pair(f"triage.{answer.question}.title"),
                "verdict": _pair(f"triage.verdict.{answer.verdict}"),
                "css": answer.verdict,
                "said": tuple(_said(answer, lang) for lang in LANGUAGES)
                if measured
                else ("", ""),
            }
        )
    return rows


def _pair(key: str) -> tuple[str, ...]:
    return tuple(text(key, lang) for lang in LANGUAGES)


def _said(answer: Answer, lang: str | None) -> str:
    key = f"triage.{answer.question}.{answer.text or answer.verdict}"
    fields = dict(answer.fields)
    bits = fields.get("bits")
    if isinstance(bits, float):
        fields["bits"] = bits_text(bits)  # as everywhere else in the report
    return text(key, lang, **fields)
