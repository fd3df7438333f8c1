# SPDX-License-Identifier: Apache-2.0
"""Where the sites of findings stand in the trace that a report shows.

A finding comes from the trace of one step, while the report's trace may join many and
number its sites otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.report.chain import is_origin

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numcheck.diagnose.finding import Finding
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import Trace

__all__ = ["Places"]


class Places:
    """Finds a site again by what it is, and by what it held where several are alike."""

    def __init__(self, trace: Trace | None) -> None:
        self._summaries = trace.summaries if trace else {}
        self._alike: dict[Hashable, list[int]] = {}
        for site in trace.sites if trace else ():
            self._alike.setdefault(_place(site), []).append(site.index)

    def index(self, finding: Finding, site: Site, summary: Summary | None) -> int:
        """Return the index in the trace; -1 where the site does not stand there.

        Args:
            finding: whose site it is.
            site: the site, as the finding's own trace numbers it.
            summary: what it held at the finding's step.
        """
        alike = self._alike.get(_place(site), [])
        held = self._summaries.get((finding.step, finding.rank), {})
        same = [i for i in alike if summary and _look(held.get(i)) == _look(summary)]
        candidates = same or alike
        if site.index in candidates:
            return site.index
        return candidates[0] if candidates else -1

    def origin(self, finding: Finding) -> int:
        """Return the index of a finding's origin; -1 where it does not stand there."""
        chain = finding.chain
        known = (summary for site, summary in chain if is_origin(finding, site))
        return self.index(finding, finding.site, next(known, None))


def _place(site: Site) -> Hashable:
    return (
        site.scope,
        site.op,
        site.phase,
        site.output,
        site.dtype,
        site.source,
        site.iteration,
    )


def _look(summary: Summary | None) -> Hashable:
    """Return what tells two measurements apart, without what may be NaN."""
    if summary is None:
        return None
    counts = (summary.nan, summary.pos_inf, summary.neg_inf, summary.zero)
    return (summary.n, *counts, summary.amax, summary.amin)
