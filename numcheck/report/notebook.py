# SPDX-License-Identifier: Apache-2.0
"""How a finding, trace, summary or format shows itself in a notebook.

Self-contained markup with inline style: a notebook keeps no style sheet of ours.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

from numcheck.report.figures import amax_text, bits_text, count_text, headroom_bits
from numcheck.report.messages import text
from numcheck.report.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.diagnose.finding import Finding
    from numcheck.formats import Format
    from numcheck.measure.summary import Summary
    from numcheck.record.trace import Trace

__all__ = ["finding_html", "format_html", "summary_html", "trace_html"]

_COLOURS = {"error": "#b3261e", "warning": "#8a5a00", "note": "#5b6673"}


def finding_html(finding: Finding) -> str:
    """Return the terminal card in a frame of the finding's level."""
    from numcheck.report.terminal import card

    shown = html.escape(card(finding, width=100, colour=False))
    colour = _COLOURS[finding.severity]
    style = f"border-left:4px solid {colour};padding:.5em 1em;line-height:1.35"
    return f'<pre style="{style}">{shown}</pre>'


def summary_html(summary: Summary) -> str:
    """Return counts and extremes as a small table; a dash for what was not measured.

    Example:
        >>> from numcheck.measure.summary import Summary
        >>> "≥1" in summary_html(Summary(n=2, low=float("nan"), high=float("nan")))
        True
    """
    rows = [
        (text("notebook.elements"), f"{summary.n:,}"),
        ("NaN", count_text(summary.nan, present=summary.has_nan)),
        ("+Inf", count_text(summary.pos_inf, present=summary.has_pos_inf)),
        ("-Inf", count_text(summary.neg_inf, present=summary.has_neg_inf)),
        (text("notebook.zero"), count_text(summary.zero, present=None)),
        (text("notebook.amax"), amax_text(summary)),
        (text("notebook.amin"), "–" if summary.amin is None else f"{summary.amin:.2e}"),
    ]
    return _table(text("notebook.summary"), rows)


def format_html(known: Format) -> str:
    """Return a format's range and precision as a small table."""
    rows = [
        (text("notebook.bits"), str(known.bits)),
        (text("notebook.precision"), str(known.precision)),
        (text("notebook.exponents"), f"{known.emin} … {known.emax}"),
        (text("notebook.max"), f"{known.max:.6g}"),
        (text("notebook.eps"), f"{known.eps:.6g}"),
        (text("notebook.normal"), f"{known.smallest_normal:.6g}"),
        (text("notebook.subnormal"), f"{known.smallest_subnormal:.6g}"),
    ]
    return _table(known.name, rows)


def trace_html(trace: Trace, most: int = 30) -> str:
    """Return the sites with least headroom at the last recorded step.

    Args:
        trace: what was recorded.
        most: rows of the table.
    """
    steps, ranks = len(trace.steps), len(trace.ranks)
    counts = {"sites": len(trace.sites), "steps": steps, "ranks": ranks}
    title = text("notebook.trace", **counts)
    if not trace.summaries:
        return _table(title, [])
    last = max(trace.summaries)
    view = trace.at(*last)
    measured = [(site, view.summary(site)) for site in trace.sites]
    held = [(site, summary) for site, summary in measured if summary is not None]
    held.sort(key=lambda pair: _danger(pair[1], pair[0].dtype))
    rows = [
        (printable(site.name), f"{site.dtype} {_left(summary, site.dtype)}")
        for site, summary in held[:most]
    ]
    return _table(text("notebook.trace_at", trace=title, step=last[0]), rows)


def _danger(summary: Summary, dtype: str) -> tuple[bool, float]:
    bits = headroom_bits(summary, dtype)
    return not summary.has_nan, math.inf if bits is None else bits


def _left(summary: Summary, dtype: str) -> str:
    if summary.has_nan:
        return "NaN"
    bits = bits_text(headroom_bits(summary, dtype))
    return "Inf" if summary.has_inf else text("report.column.bits", bits=bits)


def _table(title: str, rows: Iterable[tuple[str, Any]]) -> str:
    cells = "".join(
        f'<tr><th style="text-align:left">{html.escape(name)}</th>'
        f"<td>{html.escape(str(value))}</td></tr>"
        for name, value in rows
    )
    return (
        f'<table><caption style="text-align:left">{html.escape(title)}</caption>'
        f"{cells}</table>"
    )
