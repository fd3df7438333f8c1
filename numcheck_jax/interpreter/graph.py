# SPDX-License-Identifier: Apache-2.0
"""The data-flow graph of one run: which value was made of which."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from numcheck_jax.scope import Place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site

__all__ = ["Graph", "Node"]


@dataclasses.dataclass(slots=True)
class Node:
    """One value.

    Attributes:
        parents: nodes it was computed from, in operand order.
        place: where the equation that made it stands.
        aval: type and shape of the value.
        site: what the trace says of it; None for values it does not list (flags,
            keys). Its index and parents are set when the trace is built.
        summary: what it held.
        departure: relative error against the shadow, where there is one.
        late: nodes it depends on that come later in the list: the carry of a loop
            whose iterations were merged.
        spared: for a selection, parents of which it took no NaN and no Inf although
            they hold some.
        is_through: whether it only stands for its parent, like a loop's operand
            inside the loop.
        is_live: whether it depends on an input of the program.
    """

    parents: tuple[int, ...] = ()
    place: Place = dataclasses.field(default_factory=Place)
    aval: Any = None
    site: Site | None = None
    summary: Summary | None = None
    departure: float | None = None
    late: tuple[int, ...] = ()
    spared: frozenset[int] = frozenset()
    is_through: bool = False
    is_live: bool = True

    @property
    def is_bad(self) -> bool:
        """Whether it was measured and holds NaN or Inf."""
        return self.summary is not None and self.summary.is_finite is False


class Graph:
    """Nodes in execution order."""

    def __init__(self) -> None:
        """Start without nodes."""
        self.nodes: list[Node] = []

    def add(self, node: Node) -> int:
        """Append a node and return its index."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def ancestors(self, start: Iterable[int]) -> set[int]:
        """Return the given nodes and all they were computed from."""
        edges = [(*n.parents, *n.late) for n in self.nodes]
        return _reached(start, edges)

    def descendants(self, start: Iterable[int]) -> set[int]:
        """Return the given nodes and all that was computed from them."""
        return _reached(start, self.children())

    def children(self) -> list[list[int]]:
        """Return, for each node, those that read it."""
        edges: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            for parent in (*node.parents, *node.late):
                edges[parent].append(index)
        return edges


def _reached(
    start: Iterable[int], edges: list[tuple[int, ...]] | list[list[int]]
) -> set[int]:
    found = set(start)
    todo = list(found)
    while todo:
        for index in edges[todo.pop()]:
            if index not in found:
                found.add(index)
                todo.append(index)
    return found
