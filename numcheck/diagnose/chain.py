# SPDX-License-Identifier: Apache-2.0
"""The story of a fault in a few links: what led to the origin, and on to the harm."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from numcheck.diagnose.load import load_bits

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["chain"]

_MOST_LINKS = 8
_UPSTREAM = 3


def chain(
    view: StepView, origin: Site, harm: Site | None, through: Callable[[int], bool]
) -> tuple[tuple[Site, Summary | None], ...]:
    """Return at most eight sites from upstream of `origin` to `harm`, with summaries.

    Upstream of the origin stand the operands that fill most of their format's range;
    downstream the shortest path, its middle left out where it is long.

    Args:
        view: the step.
        origin: where the fault began.
        harm: the kept value it reached, or None.
        through: whether a site, by index, carries the fault; the path keeps to those.
    """
    before = _most_loaded(view, origin)
    after = [] if harm is None else _shortest(view, origin, harm, through)
    room = _MOST_LINKS - len(before) - 1
    if len(after) > room:
        after = [*after[: room - 1], after[-1]]
    return tuple((s, view.summary(s)) for s in (*before, origin, *after))


def _most_loaded(view: StepView, origin: Site) -> list[Site]:
    found: list[Site] = []
    site = origin
    seen = {origin.index}
    for _ in range(64):  # views and casts are passed over, so bound the climb itself
        parents = [p for p in view.parents(site) if p.index not in seen]
        if len(found) == _UPSTREAM or not parents:
            break
        site = max(parents, key=lambda p: load_bits(p, view.summary(p)))
        seen.add(site.index)
        if site.effect != "move" or site.kind == "source":
            found.append(site)
    return found[::-1]


def _shortest(
    view: StepView, origin: Site, harm: Site, through: Callable[[int], bool]
) -> list[Site]:
    """Return the shortest path after `origin` up to and including `harm`."""
    children = view.trace.children
    came: dict[int, int] = {origin.index: origin.index}
    queue = deque([origin.index])
    while queue and harm.index not in came:
        index = queue.popleft()
        for child in children.get(index, ()):
            if child not in came and through(child):
                came[child] = index
                queue.append(child)
    path: list[Site] = []
    index = harm.index
    while index in came and index != origin.index:
        path.append(view.trace.sites[index])
        index = came[index]
    return path[::-1]
