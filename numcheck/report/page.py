# SPDX-License-Identifier: Apache-2.0
"""The report as one self-contained HTML page, in both languages at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numcheck.report.departed import departed
from numcheck.report.frame import about, both_texts, framed, script_texts
from numcheck.report.page_cards import page_card
from numcheck.report.page_data import page_data
from numcheck.report.places import Places
from numcheck.report.prose import experiment_text
from numcheck.report.triage import triage_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numcheck.diagnose.incident import Experiment
    from numcheck.report.content import Content
    from numcheck.report.frame import Pair

__all__ = ["page"]

_SCRIPTS: Final = (
    "base.js",
    "draw.js",
    "map.js",
    "histogram.js",
    "curves.js",
    "switches.js",
    "page.js",
)


def page(
    content: Content,
    lang: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """Return the page. It needs no network and no other file.

    Args:
        content: findings and what is known around them.
        lang: language it opens in; the reader can switch.
        progress: called while the trace is read, with steps done and steps in all.
    """
    sites = content.trace.sites if content.trace else ()
    places = Places(content.trace)
    ranks = len(content.trace.ranks) if content.trace else 1
    data = page_data(content, places, progress) | {"texts": script_texts("page.js")}
    coverage = content.coverage
    return framed(
        "page.html",
        _SCRIPTS,
        data,
        lang,
        about=about(content.trace.meta if content.trace else {}),
        cards=[page_card(f, places, ranks) for f in content.findings],
        experiments=[_experiment(e) for e in content.experiments],
        triage=triage_rows(content),
        departures=departed(content.trace, content.departures)
        if content.trace and content.departures
        else [],
        seen=_pairs(coverage.seen),
        unseen=_pairs(coverage.unseen),
        has_map=bool(data["rows"]),
        has_curves=bool(data["curves"]),
        left_out=data["left_out"],
        steps_in_column=data["steps_in_column"],
        phases=list(dict.fromkeys(sites[i].phase for i in data["rows"])),
        dtypes=sorted({sites[i].dtype for i in data["rows"]}),
    )


def _pairs(sentences: Callable[[str], Iterable[str]]) -> list[Pair]:
    return list(zip(sentences("en"), sentences("zh"), strict=True))


def _experiment(experiment: Experiment) -> dict[str, Any]:
    return {
        "name": both_texts(f"page.experiment.{experiment.name}"),
        "result": both_texts(f"page.result.{experiment.result}"),
        "css": experiment.result,
        "showed": _pairs(lambda lang: [experiment_text(experiment, lang)])[0],
    }
