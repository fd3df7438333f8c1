# SPDX-License-Identifier: Apache-2.0
"""Results that a selection leaves out, so that only their gradient does harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numcheck.diagnose.scene import Scene

__all__ = ["is_dropped"]


def is_dropped(scene: Scene) -> bool:
    """Whether a selection leaves the result out and only the gradient is harmed.

    The program knows then that its formula does not hold there, and what it is given
    is not to blame.
    """
    if scene.site.phase != "forward":
        return False
    if any(s.role in ("loss", "output") for s in scene.origin.harm):
        return False
    view, health = scene.provenance.view, scene.provenance.health
    front, seen = [scene.site.index], {scene.site.index}
    for index in front:
        for child in view.trace.children.get(index, ()):
            site = view.trace.sites[child]
            if child in seen or site.phase != "forward":
                continue
            seen.add(child)
            if health.is_bad(child):
                front.append(child)
            elif site.family == "select":
                return True
    return False
