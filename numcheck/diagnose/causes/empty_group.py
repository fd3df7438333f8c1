# SPDX-License-Identifier: Apache-2.0
"""A batch in which a group that is averaged over has no member."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numcheck.diagnose.ancestry import source_of
from numcheck.diagnose.causes.base import explain
from numcheck.diagnose.finding import Evidence

if TYPE_CHECKING:
    from numcheck.diagnose.ancestry import Ancestry
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["EmptyGroup"]

_AGGREGATES = frozenset({"sum", "mean", "variance", "norm", "matmul", "scatter"})
_SPREADS = ("variance", "norm", "sqrt", "select")
_NEAR = 4  # operators before the division


class EmptyGroup:
    """The divisor is a count or a spread of the batch alone, and it is zero."""

    id = "N054"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for empty averages, and divisions by what the batch alone gives."""
        if broke.id == "N308":
            is_spread = scene.site.family == "variance"
            first = "spread_of_all" if is_spread else "count_at_least_one"
            advice = (first, "drop_empty_batches")
            return explain(self.id, "data", "likely", advice=advice)
        if broke.id not in ("N303", "N304", "N312") or scene.site.phase != "forward":
            return None
        behind = scene.ancestry_of(scene.denominator)
        if behind is None or scene.denominator.site is None:
            return None
        view = scene.provenance.view
        is_count = _is_given_count(view, scene.denominator.site)
        if not is_count and not _is_aggregate(view, behind):
            return None
        if behind.is_from_batch:
            seen = Evidence("divisor_from_batch")
        elif not behind.sources():
            seen = Evidence("divisor_counts_flags")
        else:
            return None
        guards = ["count_at_least_one", "drop_empty_batches", "std_at_least"]
        if not is_count and _is_spread(behind):
            guards = ["std_at_least", "add_epsilon"]
        return explain(self.id, "data", "likely", seen, advice=tuple(guards))


def _is_given_count(view: StepView, divisor: Site) -> bool:
    """Whether the divisor is whole numbers of the batch, such as lengths."""
    given = source_of(view, divisor)
    return given is not None and given.dtype.startswith(("int", "uint"))


def _is_spread(behind: Ancestry) -> bool:
    """Whether a divisor is a deviation, a norm or a largest magnitude, not a count."""
    computed = [s for s in behind.sites if s.kind == "operator"][:_NEAR]
    return any(site.family in _SPREADS for site in computed)


def _is_aggregate(view: StepView, behind: Ancestry) -> bool:
    """Whether it is a count, spread or difference: what was only looked up is none."""
    computed = [s for s in behind.sites if s.effect == "compute"]
    if computed and computed[0].family == "sub":
        given = [source_of(view, parent) for parent in view.parents(computed[0])]
        if given and None not in given:
            return True  # two equal timestamps
    return any(
        site.family in _AGGREGATES or _size(site) < max(map(_size, read), default=0)
        for site in behind.sites
        if site.kind == "operator"
        if site.effect == "compute" or site.family == "select"
        for read in [list(view.parents(site))]
    )


def _size(site: Site) -> int:
    return math.prod(site.shape)
