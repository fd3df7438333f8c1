# SPDX-License-Identifier: Apache-2.0
"""What is said about two compared runs, by the table and by the page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from numcheck.report.figures import compact
from numcheck.report.messages import text
from numcheck.report.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.comparison import Comparison, Point
    from numcheck.comparison.departure import Departure

__all__ = ["notes", "place", "title", "verdict", "worth_showing"]

_NAMED: Final = 6


def title(comparison: Comparison, a: str, b: str, lang: str | None) -> str:
    """Return which step of which run was compared with which."""
    steps = {"step_a": comparison.step_a, "step_b": comparison.step_b}
    return text("compare.title", lang, a=a, b=b, **steps)


def verdict(comparison: Comparison, lang: str | None) -> str:
    """Return where the runs part, or how far at most they depart."""
    if not comparison.departures:
        return text("compare.nothing", lang)
    first = comparison.first_difference
    if first is None:
        pairs = len(comparison.departures)
        worst = max(comparison.departures, key=lambda d: d.roundings)
        if worst.roundings == 0:
            return text("compare.equal", lang, pairs=pairs)
        return text(
            "compare.none",
            lang,
            pairs=pairs,
            worst=compact(worst.roundings),
            where=place(worst.pair.a, lang),
        )
    where = place(first.pair.a, lang)
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


def worth_showing(comparison: Comparison, most: int) -> Sequence[Departure]:
    """Return the points around the first difference, else those that depart most."""
    first = comparison.first_difference
    if first is None:
        ranked = sorted(comparison.departures, key=lambda d: -d.roundings)[:most]
        return sorted(ranked, key=lambda d: d.pair.a.order)
    position = comparison.departures.index(first)
    start = max(0, position - most // 4)
    return comparison.departures[start : start + most]


def place(point: Point, lang: str | None) -> str:
    """Return kind and name of a point."""
    kind = text(f"compare.kind.{point.kind}", lang)
    parts = point.path[1:] if point.kind in ("given", "parameter") else point.path
    return f"{kind} {printable('.'.join(parts) or point.site.op)}"


def notes(comparison: Comparison, a: str, b: str, lang: str | None) -> list[str]:
    """Return what found no partner, was paired by order alone or could not be read."""
    alignment = comparison.alignment
    told = []
    separator = text("report.list_separator", lang)
    for run, alone in ((a, alignment.only_a), (b, alignment.only_b)):
        if alone:
            names = separator.join(place(p, lang) for p in alone[:_NAMED])
            if len(alone) > _NAMED:
                more = len(alone) - _NAMED
                names = text("compare.more", lang, names=names, count=more)
            told.append(text("compare.only", lang, run=run, names=names))
    guessed = sum(p.how == "order" for p in alignment.pairs)
    if guessed:
        told.append(text("compare.paired_by_order", lang, count=guessed))
    coarse = sum(d.is_by_magnitude for d in comparison.departures)
    if coarse:
        told.append(text("compare.by_magnitude", lang, count=coarse))
    for run, meta in ((a, comparison.meta_a), (b, comparison.meta_b)):
        problems = meta.get("notes", ())
        told += [_unread(run, problem, lang) for problem in problems[:_NAMED]]
        if len(problems) > _NAMED:
            told.append(_unread(run, f"… +{len(problems) - _NAMED}", lang))
    return told


def _unread(run: str, problem: str, lang: str | None) -> str:
    return text("compare.unread", lang, run=run, problem=problem)
