# SPDX-License-Identifier: Apache-2.0
"""Two compared runs as a table for the terminal."""

from __future__ import annotations

import math
import shutil
from typing import TYPE_CHECKING

from numcheck.report.figures import compact
from numcheck.report.messages import text
from numcheck.report.printable import printable
from numcheck.report.styled import columns, drawn, hanging, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.comparison import Comparison, Point
    from numcheck.comparison.departure import Departure
    from numcheck.report.styled import Cell

__all__ = ["comparison_table"]

SHOWN = 20
NAMED = 6
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
    steps = {"step_a": comparison.step_a, "step_b": comparison.step_b}
    lines = [joined((text("compare.title", lang, a=a, b=b, **steps), "bold"))]
    lines += hanging(joined("  "), "  ", joined(_verdict(comparison, lang)), room)
    chosen = comparison.departures if whole else _worth_showing(comparison)
    if chosen:
        rows = [_heading(lang), *(_row(d, lang) for d in chosen)]
        lines += [joined(""), *columns(rows, room)]
    for note in _notes(comparison, a, b, lang):
        lines += hanging(joined("  "), "    ", joined(note), room)
    return drawn(lines, room, colour=colour)


def _verdict(comparison: Comparison, lang: str | None) -> str:
    if not comparison.departures:
        return text("compare.nothing", lang)
    first = comparison.first_difference
    if first is None:
        worst = max(comparison.departures, key=lambda d: d.roundings)
        return text(
            "compare.none",
            lang,
            pairs=len(comparison.departures),
            worst=compact(worst.roundings),
            where=_place(worst.pair.a, lang),
        )
    where = _place(first.pair.a, lang)
    held = first.pair.summary_a, first.pair.summary_b
    if first.verdict == "non-finite":
        return text("compare.first_nonfinite", lang, where=where)
    if math.isinf(first.roundings):
        sizes = {"n_a": held[0].n, "n_b": held[1].n}
        return text("compare.first_size", lang, where=where, **sizes)
    position = comparison.departures.index(first)
    earlier = (d.roundings for d in comparison.departures[:position])
    return text(
        "compare.first",
        lang,
        where=where,
        roundings=compact(first.roundings),
        dtype=first.pair.a.site.dtype or "float32",
        before=compact(max(earlier, default=0.0)),
    )


def _worth_showing(comparison: Comparison) -> Sequence[Departure]:
    """Return the points around the first difference, else those that depart most."""
    first = comparison.first_difference
    if first is None:
        ranked = sorted(comparison.departures, key=lambda d: -d.roundings)[:SHOWN]
        return sorted(ranked, key=lambda d: d.pair.a.order)
    position = comparison.departures.index(first)
    start = max(0, position - SHOWN // 4)
    return comparison.departures[start : start + SHOWN]


def _heading(lang: str | None) -> list[Cell]:
    names = ("place", "verdict", "roundings", "a", "b")
    titles = [(text(f"compare.column_{n}", lang), "dim") for n in names]
    return [titles[1], titles[0], *titles[2:]]


def _row(departure: Departure, lang: str | None) -> list[Cell]:
    pair = departure.pair
    style = _STYLES.get(departure.verdict, "")
    return [
        (text(f"compare.verdict.{departure.verdict}", lang), style),
        (_place(pair.a, lang), ""),
        (compact(departure.roundings), style),
        (_amax(pair.summary_a.amax), ""),
        (_amax(pair.summary_b.amax), ""),
    ]


def _amax(value: float | None) -> str:
    return "-" if value is None else compact(value)


def _place(point: Point, lang: str | None) -> str:
    kind = text(f"compare.kind.{point.kind}", lang)
    parts = point.path[1:] if point.kind in ("given", "parameter") else point.path
    return f"{kind} {printable('.'.join(parts) or point.site.op)}"


def _notes(comparison: Comparison, a: str, b: str, lang: str | None) -> list[str]:
    alignment = comparison.alignment
    notes = []
    for run, alone in ((a, alignment.only_a), (b, alignment.only_b)):
        if alone:
            names = ", ".join(_place(p, lang) for p in alone[:NAMED])
            if len(alone) > NAMED:
                names = text(
                    "compare.more", lang, names=names, count=len(alone) - NAMED
                )
            notes.append(text("compare.only", lang, run=run, names=names))
    guessed = sum(p.how == "order" for p in alignment.pairs)
    if guessed:
        notes.append(text("compare.paired_by_order", lang, count=guessed))
    return notes
