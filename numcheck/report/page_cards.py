# SPDX-License-Identifier: Apache-2.0
"""A finding as the page's template shows it: each sentence in both languages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from numcheck.report.chain import chain_links, is_origin
from numcheck.report.colour import code_of, colour_of_code
from numcheck.report.figures import (
    amax_text,
    bits_text,
    count_text,
    headroom_bits,
    infinities_text,
    told_headroom,
)
from numcheck.report.frame import both_texts
from numcheck.report.messages import LANGUAGES
from numcheck.report.naming import chain_name, held, location
from numcheck.report.printable import printable
from numcheck.report.prose import Prose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numcheck.diagnose.finding import Fact, Finding
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.report.frame import Pair
    from numcheck.report.places import Places

__all__ = ["page_card"]

_LONGEST_CHAIN = 40


def page_card(finding: Finding, places: Places, ranks: int = 1) -> dict[str, Any]:
    """Return everything the template needs of a finding.

    Args:
        finding: what to show.
        places: where its sites stand in the trace that is shown.
        ranks: how many processes were recorded.
    """
    english, chinese = (Prose(finding, lang, ranks=ranks) for lang in LANGUAGES)

    def say(words: Callable[[Prose], str]) -> Pair:
        return words(english), words(chinese)

    def each(words: Callable[[Prose], Iterable[str]]) -> list[Pair]:
        return list(zip(words(english), words(chinese), strict=True))

    source = finding.site.source
    return {
        "finding": finding,
        "severity": finding.severity,
        "level": say(lambda p: p.headline()[0].rstrip(" ：:")),
        "title": say(Prose.title),
        "mark": say(Prose.mark),
        "where": say(Prose.where_read),
        "place": say(Prose.place) if source else None,
        "line": source.line if source else 0,
        "text": printable(source.text) if source else "",
        "aside": say(Prose.aside),
        "facts": [_fact(fact, finding.id, say) for fact in finding.facts],
        "chain": [
            _link(finding, link, places)
            for link in chain_links(finding, _LONGEST_CHAIN)
        ],
        "notes": each(Prose.notes),
        "seen": each(lambda p: (t for seen, t in p.evidence() if seen)),
        "inferred": each(lambda p: (t for seen, t in p.evidence() if not seen)),
        "harm": say(Prose.harm),
        "cause": say(Prose.cause),
        "help": each(Prose.help),
    }


def _fact(
    fact: Fact, rule: str, say: Callable[[Callable[[Prose], str]], Pair]
) -> dict[str, Any]:
    summary = fact.summary
    bits = told_headroom(summary, fact.dtype, rule)
    return {
        "label": say(lambda p: p.say(f"report.fact.{fact.label}")),
        "name": printable(fact.name),
        "dtype": printable(fact.dtype),
        "amax": amax_text(summary),
        "headroom": bits_text(bits),
        "colour": colour_of_code(code_of(summary, fact.dtype)),
        "inf": infinities_text(summary),
        "nan": count_text(summary.nan, present=summary.has_nan),
        "n": f"{summary.n:,}",
    }


def _link(
    finding: Finding, link: tuple[Site, Summary | None] | int, places: Places
) -> dict[str, Any]:
    if isinstance(link, int):
        return {"omitted": link}
    site, summary = link
    bits = headroom_bits(summary, site.dtype)
    source = site.source
    return {
        "omitted": 0,
        "index": places.index(finding, site, summary),
        "name": printable(chain_name(site)),
        "value": _value(held(summary), bits),
        "is_bad": held(summary) is not None,
        "colour": colour_of_code(code_of(summary, site.dtype)),
        "is_origin": is_origin(finding, site),
        "title": printable(f"{site.name} {site.dtype} {list(site.shape)}")
        + (f"\n{printable(location(source))}" if source else ""),
        "phase": site.phase,
    }


def _value(bad: str | None, bits: float | None) -> Pair:
    """Return what a link of the chain holds, in both languages."""
    if bad is None and bits == math.inf:
        return both_texts("report.chain.zeros")
    told = bad or bits_text(bits)
    return told, told
