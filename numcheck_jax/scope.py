# SPDX-License-Identifier: Apache-2.0
"""Module paths and transformations from the name stack of an equation.

Flax Linen pushes a scope for every module; `jvp` and `transpose` wrap them.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jax.extend.source_info_util import NameStack

__all__ = ["Place", "place_of"]

_RECOMPUTED = "rematted_computation"
_SILENT = frozenset({_RECOMPUTED, "checkpoint", "remat"})


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where an equation stands.

    Attributes:
        path: names of the modules and named scopes around it, outermost first.
        is_differentiated: whether it was traced under `jvp`.
        is_transposed: whether it belongs to a transposed, i.e. backward, computation.
        is_recomputed: whether remat runs it a second time.
    """

    path: tuple[str, ...] = ()
    is_differentiated: bool = False
    is_transposed: bool = False
    is_recomputed: bool = False

    @property
    def scope(self) -> str:
        """The path as one dotted name."""
        return ".".join(self.path)

    def inside(self, inner: Place) -> Place:
        """Return the place of an equation in the body of an equation at this place."""
        return Place(
            _joined(self.path, inner.path),
            self.is_differentiated or inner.is_differentiated,
            self.is_transposed or inner.is_transposed,
            self.is_recomputed or inner.is_recomputed,
        )


@functools.lru_cache(maxsize=4096)
def place_of(stack: NameStack) -> Place:
    """Return the place that a name stack describes."""
    path: tuple[str, ...] = ()
    run: list[str] = []
    transforms: set[str] = set()
    for part in stack.stack:
        # A scope has no wrapping of its own; a transformation starts a new run of
        # scopes, which may repeat the one before: transpose(jvp(Net))/jvp(Net)/q.
        if type(part).__name__ == "Transform":
            transforms.add(part.name)
            path, run = _joined(path, tuple(run)), []
        else:
            run.append(part.name)
    path = _joined(path, tuple(run))
    return Place(
        tuple(name for name in path if name not in _SILENT),
        "jvp" in transforms,
        "transpose" in transforms,
        _RECOMPUTED in path,
    )


def _joined(outer: tuple[str, ...], inner: tuple[str, ...]) -> tuple[str, ...]:
    if outer and inner[: len(outer)] == outer:
        return inner
    if outer and inner and inner == outer[-len(inner) :]:
        return outer
    return outer + inner
