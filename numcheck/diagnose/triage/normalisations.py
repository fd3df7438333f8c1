# SPDX-License-Identifier: Apache-2.0
"""Where the forward run normalises: layers of the framework, and written-out ones."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["normalised"]

_REACH: Final = 8
_ROOTS: Final = ("rsqrt", "sqrt")
_SQUARES: Final = ("mul", "square", "pow")
_BETWEEN: Final = ("add", "sub", "div", "mul", "select", "reciprocal", "rsqrt")


def normalised(view: StepView) -> tuple[Site, ...]:
    """Return the sites that hold a normalised value, in execution order.

    Besides fused layers that is a value times the reciprocal root of a mean or sum of
    squares, as compilers see a normalisation and as programs write it.
    """
    found: list[Site] = []
    for site in view.trace.sites:
        if site.kind != "operator" or site.phase != "forward":
            continue
        if site.family == "normalisation":
            if not site.output:
                found.append(site)
        elif site.family in _ROOTS and _is_of_squares(view, site):
            found += _scaled_by(view, site)
    return tuple({site.index: site for site in found}.values())


def _is_of_squares(view: StepView, root: Site) -> bool:
    """Whether a root is taken of a reduction of squares."""
    for site in _upstream(view, root):
        if site.family in ("variance", "norm"):
            return True
        if site.family in ("sum", "mean") and any(
            parent.family in _SQUARES for parent in view.parents(site)
        ):
            return True
    return False


def _upstream(view: StepView, root: Site) -> Iterator[Site]:
    """Yield what lies before a root, nearest first, up to the reductions."""
    seen, queue = {root.index}, deque([(root, 0)])
    while queue:
        site, steps = queue.popleft()
        for parent in view.parents(site):
            if parent.index in seen or parent.kind != "operator" or steps >= _REACH:
                continue
            seen.add(parent.index)
            yield parent
            if parent.family in _BETWEEN or parent.effect in ("move", "cast"):
                queue.append((parent, steps + 1))


def _scaled_by(view: StepView, root: Site) -> list[Site]:
    """Return the first products or quotients of a larger value with a root."""
    seen, queue, found = {root.index}, deque([(root, 0)]), []
    while queue:
        site, steps = queue.popleft()
        for index in view.trace.children.get(site.index, ()):
            child = view.trace.sites[index]
            if index in seen or child.phase != "forward" or steps >= _REACH:
                continue
            seen.add(index)
            others = [p for p in view.parents(child) if p.index != site.index]
            is_scaled = child.family in ("mul", "div") and any(
                p.index not in seen and p.shape == child.shape for p in others
            )
            if is_scaled:
                found.append(child)
            elif child.family in _BETWEEN or child.effect in ("move", "cast"):
                queue.append((child, steps + 1))
    return found
