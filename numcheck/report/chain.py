# SPDX-License-Identifier: Apache-2.0
"""Which links of a long chain of values a reader needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck.report.naming import held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.diagnose.finding import Finding
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site, SourceLine

__all__ = ["Link", "chain_links", "is_origin", "reading_line"]

Link = tuple["Site", "Summary | None"]
_AROUND_ORIGIN: Final = 3
_AT_END: Final = 2


def is_origin(finding: Finding, site: Site) -> bool:
    """Whether `site` is the place where the finding was born."""
    return site.index == finding.site.index and site.op == finding.site.op


def reading_line(finding: Finding) -> SourceLine | None:
    """Return the line that first read an origin which no line made, such as a batch.

    None for an origin with a line of its own, and where no line that read it is known.
    """
    if finding.site.source is not None:
        return None
    sites = [site for site, _ in finding.chain]
    at = next((i for i, site in enumerate(sites) if is_origin(finding, site)), None)
    after = [] if at is None else sites[at + 1 :]
    return next((site.source for site in after if site.source is not None), None)


def chain_links(finding: Finding, longest: int = 12) -> Sequence[Link | int]:
    """Return the chain, what lies far from origin and harm replaced by its count.

    Args:
        finding: whose chain.
        longest: chains up to this length are returned whole, but for operators that
            hand on what the link before them held, such as a view or a detach.
    """
    chain = _folded(finding)
    if len(chain) <= longest:
        return chain
    at = next((i for i, (s, _) in enumerate(chain) if is_origin(finding, s)), 0)
    kept = {
        *range(max(0, at - _AROUND_ORIGIN), min(len(chain), at + _AROUND_ORIGIN + 1)),
        *range(len(chain) - _AT_END, len(chain)),
    }
    links: list[Link | int] = []
    for i, link in enumerate(chain):
        if i in kept:
            links.append(link)
        elif links and isinstance(links[-1], int):
            links[-1] += 1
        else:
            links.append(1)
    return links


def _folded(finding: Finding) -> list[Link]:
    links: list[Link] = []
    for site, summary in finding.chain:
        link = (site, summary)
        if is_origin(finding, site) or not links or not _hands_on(link, links[-1]):
            links.append(link)
    return links


def _hands_on(link: Link, before: Link) -> bool:
    """Whether an operator only shows the value before it in another form."""
    site, summary = link
    if held(summary) != held(before[1]):
        return False
    is_plain = (site.kind, site.effect, site.family) == ("operator", "move", "")
    return is_plain and len(site.parents) == 1 and site.dtype == before[0].dtype
