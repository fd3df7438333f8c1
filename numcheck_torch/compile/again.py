# SPDX-License-Identifier: Apache-2.0
"""Finds what a backward graph computes again rather than take from the forward graph.

Compilers save few activations and compute others again from these, by the very same
operators. What the forward graph measured holds for them too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.fx import Graph, Node

__all__ = ["Computed"]


class Computed:
    """The values of a forward graph, by name.

    Both graphs are cut out of one, in which names are unique.

    Args:
        graph: the forward graph, before any compiler changed it.
        rows: numbers of the nodes that are rows of its table.

    Attributes:
        rows: the same by name.
    """

    def __init__(self, graph: Graph, rows: Mapping[Node, int]) -> None:
        self._inputs = {n.name for n in graph.find_nodes(op="placeholder")}
        self._made = {n.name: _made(n) for n in graph.nodes if n.op == "call_function"}
        self.rows = {node.name: number for node, number in rows.items()}

    def again(self, graph: Graph) -> dict[Node, int]:
        """Return the nodes of a backward graph that repeat rows, with their numbers.

        Example:
            >>> graph = torch.fx.symbolic_trace(torch.nn.Identity()).graph
            >>> Computed(graph, {}).again(graph)
            {}
        """
        known: set[Node] = set()
        for node in graph.nodes:
            is_saved = node.op == "placeholder" and (
                node.name in self._made or node.name in self._inputs
            )
            is_repeated = (
                node.op == "call_function"
                and self._made.get(node.name) == _made(node)
                and known.issuperset(node.all_input_nodes)
                and not _is_random(node)
            )
            if is_saved or is_repeated:
                known.add(node)
        return {
            node: self.rows[node.name]
            for node in known
            if node.op == "call_function" and node.name in self.rows
        }

    def among(self, graph: Graph) -> tuple[int, ...]:
        """Return the positions of a backward graph's inputs that are rows."""
        inputs = graph.find_nodes(op="placeholder")
        return tuple(i for i, node in enumerate(inputs) if node.name in self.rows)


def _made(node: Node) -> tuple[Any, str, str]:
    """Return what a node computes, its operands by name."""
    return node.target, str(node.args), str(node.kwargs)


def _is_random(node: Node) -> bool:
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags
