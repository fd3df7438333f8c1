# SPDX-License-Identifier: Apache-2.0
"""Two compared runs as a table for the terminal."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from numcheck.report.comparison_words import (
    notes,
    place,
    title,
    verdict,
    worth_showing,
)
from numcheck.report.figures import compact
from numcheck.report.messages import text
from numcheck.report.styled import columns, drawn, hanging, joined

if TYPE_CHECKING:
    from numcheck.comparison import Comparison
    from numcheck.comparison.departure import Departure
    from numcheck.report.styled import Cell

__all__ = ["comparison_table"]

SHOWN = 20
_STYLES = {"different": "bold red", "non-finite": "bold red", "downstream": "yellow"}


def comparison_table(
    comparison: Comparison,
    a: str,
    b: str,
    *,
    whole: bool = False,
    lang: str | None = None,
    width: int | None = None,
    colour: bool = False,
) -> str:
    """Return the verdict, the points around the first difference, and what is alone.

    Args:
        comparison: what `numcheck.comparison.compare_traces` gave.
        a: how to call the first run.
        b: how to call the second.
        whole: list every point.
        lang: ``en`` or ``zh``; None to ask the surroundings.
        width: cells in a line; None for the terminal's.
        colour: whether to colour.
    """
    room = width or shutil.get_terminal_size().columns
    lines = [joined((title(comparison, a, b, lang), "bold"))]
    lines += hanging(joined("  "), "  ", joined(verdict(comparison, lang)), room)
    chosen = comparison.departures if whole else worth_showing(comparison, SHOWN)
    if chosen:
        rows = [_heading(lang), *(_row(d, lang) for d in chosen)]
        lines += [joined(""), *columns(rows, room)]
    for note in notes(comparison, a, b, lang):
        lines += hanging(joined("  "), "    ", joined(note), room)
    return drawn(lines, room, colour=colour)


def _heading(lang: str | None) -> list[Cell]:
    names = ("place", "verdict", "roundings", "a", "b")
    titles = [(text(f"compare.column_{n}", lang), "dim") for n in names]
    return [titles[1], titles[0], *titles[2:]]


def _row(departure: Departure, lang: str | None) -> list[Cell]:
    pair = departure.pair
    style = _STYLES.get(departure.verdict, "")
    return [
        (text(f"compare.verdict.{departure.verdict}", lang), style),
        (place(pair.a, lang), ""),
        (compact(departure.roundings), style),
        (_amax(pair.summary_a.amax), ""),
        (_amax(pair.summary_b.amax), ""),
    ]


def _amax(value: float | None) -> str:
    return "-" if value is None else compact(value)
