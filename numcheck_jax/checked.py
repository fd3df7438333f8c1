# SPDX-License-Identifier: Apache-2.0
"""A trace seen from the checks that a user put into the program."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import Trace

__all__ = ["from_checks"]


def from_checks(trace: Trace, step: int, rank: int = 0) -> Trace | None:
    """Return the trace with what its failing checks saw as the only kept values.

    Whoever checks a value by hand wants it finite, whatever the step returns.

    Args:
        trace: a replay of one step.
        step: which.
        rank: of which process.

    Returns:
        The trace; None when no check fails in it.
    """
    held = trace.summaries[step, rank]
    sites = [site for site in trace.sites if site.kind != "kept"]
    summaries: dict[int, Summary] = {
        s.index: held[s.index] for s in sites if s.index in held
    }
    failing = [
        site
        for site in sites
        if site.op == "check_numerics"
        and site.index in held
        and held[site.index].is_finite is False
    ]
    if not failing:
        return None
    for site in failing:
        index = len(sites)
        sites.append(_kept(site, index))
        summaries[index] = held[site.index]
    return dataclasses.replace(
        trace, sites=tuple(sites), summaries={(step, rank): summaries}
    )


def _kept(check: Site, index: int) -> Site:
    is_gradient = check.phase == "backward"
    role = "gradient" if is_gradient else "output"
    return dataclasses.replace(
        check,
        index=index,
        op=f"{role}:{dict(check.detail).get('name', '')}",
        kind="kept",
        role="gradient" if is_gradient else "output",
        effect="move",
        parents=(check.index,),
        family="",
        detail=(),
    )
