# SPDX-License-Identifier: Apache-2.0
"""The gradients of a step, and whether something scales them by their norm.

Where the program hands its gradients back they are there by name. Else the data flow
tells: on the way from a parameter's new value back through operators of its own shape,
the first value of the backward run is its gradient.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["gradients_of", "scaled_by_norm"]


def gradients_of(view: StepView) -> Mapping[str, Site]:
    """Return the site of each parameter's gradient, by ``gradient:NAME``."""
    returned = {
        site.op: site
        for site in view.kept()
        if site.role == "gradient" and site.op != "gradient norm"
    }
    if returned:
        return returned
    found: dict[str, Site] = {}
    for kept in view.kept():
        if kept.role != "parameter":
            continue
        made = next((s for s in _update(view, kept) if s.phase == "backward"), None)
        if made is not None:
            name = kept.op.removeprefix("parameter:")
            found[f"gradient:{name}"] = made
    return found


def scaled_by_norm(view: StepView) -> bool:
    """Whether updates are made of gradients times a number made of gradients.

    That is what clipping by a global norm does.
    """
    made = {site.index for site in gradients_of(view).values()}
    for kept in view.kept():
        if kept.role != "parameter":
            continue
        for site in _update(view, kept):
            scalars = [p for p in view.parents(site) if not p.shape and site.shape]
            if any(_reduces(view, scalar, made) for scalar in scalars):
                return True
    return False


def _update(view: StepView, kept: Site) -> Iterator[Site]:
    """Yield a parameter's way back through its update, to the gradient's last value."""
    seen, queue = {kept.index}, deque([kept])
    while queue:
        for parent in view.parents(queue.popleft()):
            if parent.index in seen or parent.shape != kept.shape:
                continue
            seen.add(parent.index)
            if parent.kind != "operator":
                continue
            yield parent
            if parent.phase == "optimizer":
                queue.append(parent)


def _reduces(view: StepView, scalar: Site, gradients: set[int]) -> bool:
    """Whether a number of the update is made of a gradient."""
    seen, queue = {scalar.index}, deque([scalar])
    while queue:
        site = queue.popleft()
        if site.index in gradients:
            return True
        if site.phase != "optimizer":
            continue
        for parent in view.parents(site):
            if parent.index not in seen:
                seen.add(parent.index)
                queue.append(parent)
    return False
