# SPDX-License-Identifier: Apache-2.0
"""Where in a graph a value is looked at for the least.

Inductor makes one loop of what is computed element by element, and writes it out where
another operator reads it. A reduction joins that loop if it comes soon after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from numcheck_torch.operators import describe

if TYPE_CHECKING:
    from torch.fx import Graph, Node

__all__ = ["Vicinity"]

aten = torch.ops.aten
_DEAR: Final = (aten.exp.default, aten.sigmoid.default)
"""What Inductor computes but once on a host, if anything has two readers."""
_DEEPEST: Final = 12


class Vicinity:
    """The nodes of a graph as they were before anything was added to it.

    Args:
        graph: of a program; its output node is the last.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._order = {node: i for i, node in enumerate(graph.nodes)}
        self._passing = {
            node
            for node in graph.nodes
            if len(node.users) == 1 and all(map(_is_in_loops, node.users))
        }

    def behind(self, node: Node) -> Node:
        """Return the node in front of which the loop that makes a value is over."""
        seen, waiting, nearest = {node}, [node], self._graph.output_node()
        while waiting:
            for user in waiting.pop().users:
                if user in seen or user not in self._order:
                    continue
                seen.add(user)
                if _is_in_loops(user):
                    waiting.append(user)
                elif self._order[user] < self._order[nearest]:
                    nearest = user
        if nearest.op == "output":
            return nearest
        after = nearest.next
        while not isinstance(after.target, torch._ops.OpOverload | str):
            after = after.next
        return after

    def again(self, node: Node) -> Node:
        """Return what computes a value again, if a reader more would write it out.

        In one loop the compiler computes it once. Other values are returned as they
        are.
        """
        if not self._is_dear(node, _DEEPEST):
            return node
        args = torch.fx.map_arg(node.args, self.again)
        return self._graph.call_function(node.target, args, dict(node.kwargs))  # type: ignore[arg-type]

    def _is_dear(self, node: Node, deepest: int) -> bool:
        """Whether a value is not written out, and is dear to compute."""
        target: Any = node.target
        if node not in self._passing or not deepest or not _is_elementwise(target):
            return False
        if target in _DEAR:
            return True
        return any(self._is_dear(n, deepest - 1) for n in node.all_input_nodes)


def _is_in_loops(node: Node) -> bool:
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return node.op == "call_function"
    return _is_elementwise(target) or describe(target).effect in ("move", "cast")


def _is_elementwise(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if torch.Tag.nondeterministic_seeded in target.tags:
        return False
    is_cast = target is torch.ops.prims.convert_element_type.default
    return is_cast or torch.Tag.pointwise in target.tags
