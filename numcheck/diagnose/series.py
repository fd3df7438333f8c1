# SPDX-License-Identifier: Apache-2.0
"""Growth inside one step: from layer to layer, and from one iteration to the next.

An adapter records the iterations of a loop one by one, or many of them as one site
whose summary is the merge of theirs. Both are rungs of the same ladder.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING

from numcheck.diagnose.ancestry import source_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["Ladder", "iterations_in", "layers_before", "repetitions_before"]

_PRODUCTS = ("matmul", "conv")
_PASSES = ("move", "cast")


@dataclasses.dataclass(frozen=True, slots=True)
class Ladder:
    """Largest magnitudes along a path, in execution order.

    Attributes:
        amaxes: magnitudes, all positive. Merged iterations give two: the smallest and
            the largest magnitude met in them.
        rungs: number of layers or iterations these stand for.
    """

    amaxes: tuple[float, ...]
    rungs: int

    @property
    def factor(self) -> float:
        """Growth from one rung to the next, the geometric mean; 1 below two rungs."""
        if self.rungs < 2 or not self.amaxes:
            return 1.0
        bits = math.log2(self.amaxes[-1]) - math.log2(self.amaxes[0])
        return float(2.0 ** (bits / (self.rungs - 1)))

    @property
    def rising(self) -> float:
        """Share of the magnitudes that are larger than the one before."""
        pairs = list(zip(self.amaxes, self.amaxes[1:], strict=False))
        return sum(b > a for a, b in pairs) / len(pairs) if pairs else 0.0

    @property
    def accelerates(self) -> bool:
        """Whether the growth itself grows from rung to rung: a power, not a factor."""
        bits = [math.log2(amax) for amax in self.amaxes]
        steps = [b - a for a, b in itertools.pairwise(bits)]
        pairs = list(itertools.pairwise(steps))
        return len(pairs) > 0 and steps[0] > 0 and all(b > a for a, b in pairs)


def iterations_in(view: StepView, site: Site) -> int:
    """Return how many iterations of a loop were merged into a site; usually 1."""
    summary = view.summary(site)
    size = math.prod(site.shape)
    if summary is None or not size or site.kind != "operator":
        return 1
    return max(1, summary.n // size)


def layers_before(view: StepView, origin: Site) -> Ladder:
    """Return the magnitudes of the products on the way to `origin`.

    The way is the one through each operator's operand that was itself computed by a
    product last, so weights and biases are passed by. What an optimizer computes has
    the way of the gradient that it read.
    """
    if origin.phase == "optimizer":
        origin = _gradient_behind(view, origin)
    last: dict[int, int | None] = {}
    previous: dict[int, int | None] = {}
    for site in view.trace.sites[: origin.index + 1]:
        products = [v for p in site.parents if (v := last.get(p)) is not None]
        upstream = max(products, default=None)
        is_rung = site.phase == origin.phase and site.family in _PRODUCTS
        if is_rung and site.kind == "operator":
            previous[site.index] = upstream
            last[site.index] = site.index
        else:
            last[site.index] = upstream
    path: list[Site] = []
    index = last.get(origin.index)
    if index == origin.index:
        index = previous.get(origin.index)
    while index is not None:
        path.append(view.trace.sites[index])
        index = previous.get(index)
    return _ladder(view, reversed(path))


def repetitions_before(view: StepView, origin: Site) -> Ladder:
    """Return the magnitudes of the same operator of the same line, earlier on.

    Only repetitions that feed each other count: a loop's state, not a list of
    parallel heads.
    """
    wanted, read = _signature(origin), _read(view, origin)
    # The first iteration reads what was given where later ones read the state.
    same = [
        s
        for s in view.trace.sites[: origin.index]
        if s.op == origin.op
        and _signature(s) == wanted
        and _read(view, s).issuperset(read)
    ]
    fed = _feeding(view, origin, {s.index for s in same})
    return _by_iteration(view, (s for s in same if s.index in fed))


def _gradient_behind(view: StepView, site: Site) -> Site:
    """Return what computed the largest value that an optimizer's operator reads."""
    while site.parents and (site.phase == "optimizer" or site.effect in _PASSES):
        site = max(view.parents(site), key=lambda s: _amax(view, s))
    return site


def _amax(view: StepView, site: Site) -> float:
    summary = view.summary(site)
    return (summary.amax or 0.0) if summary is not None else 0.0


def _ladder(view: StepView, sites: Iterable[Site]) -> Ladder:
    amaxes: list[float] = []
    rungs = 0
    for site in sites:
        summary, merged = view.summary(site), iterations_in(view, site)
        if summary is None or not summary.amax:
            continue
        if merged > 1 and summary.amin:
            amaxes.append(summary.amin)
        amaxes.append(summary.amax)
        rungs += merged
    return Ladder(tuple(amaxes), rungs)


def _by_iteration(view: StepView, sites: Iterable[Site]) -> Ladder:
    """Return the largest magnitude of each iteration.

    Several operators of one line may run in it: they are one rung together.
    """
    lows: list[float] = []
    highs: list[float] = []
    merged = 0
    singles: dict[tuple[int, ...], float] = {}
    for site in sites:
        summary, count = view.summary(site), iterations_in(view, site)
        if summary is None or not summary.amax:
            continue
        if count > 1 and summary.amin:
            lows.append(summary.amin)
            highs.append(summary.amax)
            merged = max(merged, count)
        else:
            rung = site.iteration or (-1, site.index)
            singles[rung] = max(singles.get(rung, 0.0), summary.amax)
    ends = (min(lows), max(highs)) if lows else ()
    return Ladder((*ends, *singles.values()), merged + len(singles))


def _signature(site: Site) -> tuple[object, ...]:
    """Return what two runs of the same operator of a loop's body have in common."""
    return site.op, site.source, site.phase, site.output, site.shape, site.kind


def _read(view: StepView, site: Site) -> frozenset[str]:
    """Return the sources that an operator reads, such as one layer's weight."""
    roots = (source_of(view, p) for p in view.parents(site))
    return frozenset(root.op for root in roots if root is not None)


def _feeding(view: StepView, origin: Site, wanted: set[int]) -> set[int]:
    """Return which of the wanted sites lie upstream of `origin`."""
    seen, stack = {origin.index}, [origin.index]
    while stack:
        for parent in view.trace.sites[stack.pop()].parents:
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return seen & wanted
