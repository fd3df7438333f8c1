# SPDX-License-Identifier: Apache-2.0
"""Two traces of one program as one, so that steps recorded apart stand side by side."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING

from numcheck.record.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site

__all__ = ["SiteKey", "joined_traces", "site_keys"]

SiteKey = tuple[str, str, str, int, tuple[int, ...], int]
"""What tells a site from the others whatever else was recorded: scope, operator,
phase, output, loop counters, and which of those with all that in common it is."""


def site_keys(sites: Iterable[Site]) -> tuple[SiteKey, ...]:
    """Return the key of each site.

    Example:
        >>> from numcheck.record.site import Site
        >>> [key[-1] for key in site_keys([Site(0, "add", "forward")] * 2)]
        [0, 1]
    """
    seen: Counter[tuple[str, str, str, int, tuple[int, ...]]] = Counter()
    keys = []
    for site in sites:
        place = (site.scope, site.op, site.phase, site.output, site.iteration)
        keys.append((*place, seen[place]))
        seen[place] += 1
    return tuple(keys)


def joined_traces(first: Trace, second: Trace) -> Trace:
    """Return one trace with the steps of both; `second` wins where both have a step.

    Sites of `second` that `first` lacks are appended.
    """
    at = {key: i for i, key in enumerate(site_keys(first.sites))}
    moved: dict[int, int] = {}
    sites = list(first.sites)
    for site, key in zip(second.sites, site_keys(second.sites), strict=True):
        if key not in at:
            at[key] = len(sites)
            parents = tuple(moved[p] for p in site.parents if p in moved)
            sites.append(dataclasses.replace(site, index=at[key], parents=parents))
        moved[site.index] = at[key]
    summaries = dict(first.summaries)
    for when, measured in second.summaries.items():
        here = {moved[i]: s for i, s in measured.items()}
        summaries[when] = _both(summaries.get(when), here)
    meta = {**second.meta, **first.meta}
    return Trace(tuple(sites), summaries, (*first.events, *second.events), meta)


def _both(
    before: Mapping[int, Summary] | None, after: Mapping[int, Summary]
) -> Mapping[int, Summary]:
    return after if before is None else {**before, **after}
