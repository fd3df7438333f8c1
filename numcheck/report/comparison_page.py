# SPDX-License-Identifier: Apache-2.0
"""Two compared runs as one self-contained HTML page, in both languages at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numcheck.comparison.departure import JUMP
from numcheck.report.comparison_words import notes, place, title, verdict, worth_showing
from numcheck.report.figures import (
    amax_text,
    bits_text,
    compact,
    count_text,
    headroom_bits,
    infinities_text,
)
from numcheck.report.frame import about, both_texts, framed, script_texts
from numcheck.report.interchange import number_to_json
from numcheck.report.messages import LANGUAGES
from numcheck.report.naming import held, location
from numcheck.report.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.comparison import Comparison, Pair, Point
    from numcheck.comparison.departure import Departure
    from numcheck.measure.summary import Summary
    from numcheck.report.frame import Pair as Words

__all__ = ["comparison_page"]

_SCRIPTS: Final = ("base.js", "switches.js", "compare.js")
_MOST_ROWS: Final = 2000


def comparison_page(
    comparison: Comparison, a: str, b: str, lang: str | None = None
) -> str:
    """Return the page. It needs no network and no other file.

    Args:
        comparison: what `numcheck.comparison.compare_traces` gave.
        a: how to call the first run.
        b: how to call the second.
        lang: language it opens in; the reader can switch.

    Example:
        >>> from numcheck.comparison import compare_traces
        >>> from numcheck.measure.summary import Summary
        >>> from numcheck.record import Site, TraceBuilder
        >>> builder = TraceBuilder(step=0)
        >>> _ = builder.add(Site(0, "loss", "forward", "kept"), Summary(n=1, amax=2.0))
        >>> trace = builder.build()
        >>> page = comparison_page(compare_traces(trace, trace), "a", "b", "en")
        >>> "the runs are equal at all 1 point" in page
        True
    """
    shown = worth_showing(comparison, _MOST_ROWS)
    first = comparison.first_difference
    data = {
        "texts": script_texts("compare.js"),
        "jump": JUMP,
        "points": [
            [number_to_json(d.roundings), d.verdict, place(d.pair.a, "en")]
            for d in shown
        ],
    }
    return framed(
        "compare.html",
        _SCRIPTS,
        data,
        lang,
        runs=_runs(comparison, a, b),
        title=_both(lambda lang: title(comparison, a, b, lang)),
        verdict=_both(lambda lang: verdict(comparison, lang)),
        agrees=first is None and bool(comparison.departures),
        first=None if first is None else _first(first),
        rows=[_row(d) for d in shown],
        left_out=len(comparison.departures) - len(shown),
        jump=compact(JUMP),
        notes=_notes(comparison, a, b),
        alone=_alone(comparison, a, b),
    )


def _both(words: Callable[[str], str]) -> Words:
    english, chinese = (words(lang) for lang in LANGUAGES)
    return english, chinese


def _runs(comparison: Comparison, a: str, b: str) -> list[str]:
    told = ((a, comparison.meta_a), (b, comparison.meta_b))
    return [" · ".join([printable(name), *about(meta)]) for name, meta in told]


def _row(departure: Departure) -> dict[str, Any]:
    pair = departure.pair
    return {
        "css": departure.verdict,
        "verdict": both_texts(f"compare.verdict.{departure.verdict}"),
        "place": _placed(pair.a),
        "other": _placed(pair.b),
        "how": both_texts(f"compare.how.{pair.how}"),
        "roundings": compact(departure.roundings),
        "dtypes": " / ".join(dict.fromkeys(_dtypes(pair))),
        "a": held(pair.summary_a) or amax_text(pair.summary_a),
        "b": held(pair.summary_b) or amax_text(pair.summary_b),
    }


def _dtypes(pair: Pair) -> tuple[str, str]:
    return printable(pair.a.site.dtype or "–"), printable(pair.b.site.dtype or "–")


def _first(departure: Departure) -> dict[str, Any]:
    """Return the values at the first difference, quantity by quantity."""
    pair = departure.pair
    sides = (pair.a, pair.summary_a), (pair.b, pair.summary_b)
    return {
        "place": _placed(pair.a),
        "verdict": both_texts(f"compare.verdict.{departure.verdict}"),
        "lines": [
            {"run": run, "text": printable(site.source.text), "line": site.source.line}
            for run, site in (("A", pair.a.site), ("B", pair.b.site))
            if site.source is not None and site.source.text
        ],
        "names": _beside(*(_names(point) for point, _ in sides)),
        "facts": _beside(*(_quantities(*side) for side in sides)),
    }


def _beside(a: dict[str, str], b: dict[str, str]) -> list[tuple[Words, str, str]]:
    return [(both_texts(f"compare.page.{n}"), a[n], b[n]) for n in a]


def _names(point: Point) -> dict[str, str]:
    source = point.site.source
    return {
        "name": printable(point.site.name),
        "source": printable(location(source)) if source else "–",
    }


def _quantities(point: Point, summary: Summary) -> dict[str, str]:
    dtype = point.site.dtype
    return {
        "dtype": printable(dtype or "–"),
        "elements": f"{summary.n:,}",
        "rms": _six(summary.rms),
        "mean": _six(summary.mean),
        "amax": _six(summary.amax),
        "headroom": bits_text(headroom_bits(summary, dtype)),
        "nan": count_text(summary.nan, present=summary.has_nan),
        "inf": infinities_text(summary),
    }


def _six(value: float | None) -> str:
    """Return six digits: what parts two runs may not show in fewer."""
    return "–" if value is None else f"{value:.6g}"


def _notes(comparison: Comparison, a: str, b: str) -> list[Words]:
    english, chinese = (notes(comparison, a, b, lang) for lang in LANGUAGES)
    return list(zip(english, chinese, strict=True))


def _alone(comparison: Comparison, a: str, b: str) -> list[tuple[str, list[Words]]]:
    """Return by run what found no partner in the other."""
    alignment = comparison.alignment
    return [
        (printable(run), [_placed(p) for p in points[:_MOST_ROWS]])
        for run, points in ((a, alignment.only_a), (b, alignment.only_b))
        if points
    ]


def _placed(point: Point) -> Words:
    return _both(lambda lang: place(point, lang))
