# SPDX-License-Identifier: Apache-2.0
"""What lies upstream of a value: sources, operators, integers on the way."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import TYPE_CHECKING

from numcheck.diagnose.health import is_floating

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.record.site import Family, Role, Site
    from numcheck.record.trace import StepView

__all__ = ["Ancestry", "ancestry", "source_of"]

_CLIMB = 8  # moves and conversions between a source and its use


@dataclasses.dataclass(frozen=True, slots=True)
class Ancestry:
    """Sites upstream of a value, itself included, nearest first."""

    sites: tuple[Site, ...]

    def sources(self, *roles: Role) -> tuple[Site, ...]:
        """Return the sources with one of the roles; all sources without roles."""
        return tuple(
            s
            for s in self.sites
            if s.kind == "source" and (not roles or s.role in roles)
        )

    def operators(self, families: Iterable[Family]) -> tuple[Site, ...]:
        """Return the operators of the families, nearest first."""
        wanted = frozenset(families)
        return tuple(
            s for s in self.sites if s.kind == "operator" and s.family in wanted
        )

    @property
    def is_learned(self) -> bool:
        """Whether a parameter or optimizer state feeds the value."""
        return bool(self.sources("parameter", "state"))

    @property
    def is_from_batch(self) -> bool:
        """Whether the batch feeds the value and nothing learned does."""
        return bool(self.sources("input", "target")) and not self.is_learned

    @property
    def integers(self) -> tuple[Site, ...]:
        """Operators that computed with integers, nearest first."""
        return tuple(
            s
            for s in self.sites
            if s.kind == "operator"
            and s.effect == "compute"
            and s.dtype.startswith(("int", "uint"))
            and not is_floating(s.dtype)
        )


def ancestry(view: StepView, site: Site) -> Ancestry:
    """Return what lies upstream of `site`, breadth first."""
    seen, queue, found = {site.index}, deque([site.index]), []
    while queue:
        here = view.trace.sites[queue.popleft()]
        found.append(here)
        for parent in here.parents:
            if parent not in seen:
                seen.add(parent)
                queue.append(parent)
    return Ancestry(tuple(found))


def source_of(view: StepView, site: Site) -> Site | None:
    """Return the source that `site` only moves or converts; None for what is computed.

    A weight is transposed and converted before it is multiplied.
    """
    for _ in range(_CLIMB):
        if site.kind == "source":
            return site
        if site.effect not in ("move", "cast") or len(site.parents) != 1:
            return None
        site = view.trace.sites[site.parents[0]]
    return None
