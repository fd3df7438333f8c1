# SPDX-License-Identifier: Apache-2.0
"""Lets a graph return the extremes of its values as more outputs."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from numcheck_torch.compile.table import GraphTable

__all__ = ["Extra", "add_extremes"]

aten = torch.ops.aten


@dataclasses.dataclass(frozen=True, slots=True)
class Extra:
    """One extra output: the extremes of some rows, of shape (rows, 2).

    Attributes:
        rows: numbers of the table's rows, in order.
    """

    rows: tuple[int, ...]


def add_extremes(module: torch.fx.GraphModule, table: GraphTable) -> list[Extra]:
    """Append one output for each device and width to a graph; return what they hold.

    Extremes are float32, those of float64 values float64.
    """
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for number, row in table.measured:
        value = row.node.meta["val"]
        wide = torch.float64 if value.dtype == torch.float64 else torch.float32
        groups.setdefault((value.device, wide), []).append(number)
    if not groups:
        return []
    (output,) = module.graph.find_nodes(op="output")
    with module.graph.inserting_before(output):
        stacked = [
            _stack(module.graph, [table.rows[i].node for i in rows], wide)
            for (_, wide), rows in groups.items()
        ]
    output.args = ((*output.args[0], *stacked),)
    _propagate(module)
    module.graph.lint()
    module.recompile()
    return [Extra(tuple(rows)) for rows in groups.values()]


def _stack(
    graph: torch.fx.Graph, nodes: list[torch.fx.Node], wide: torch.dtype
) -> torch.fx.Node:
    cells: list[torch.fx.Node] = []
    for node in nodes:
        value = node
        if node.meta["val"].dtype.itemsize < 2:
            value = _cast(graph, node, torch.float32)
        for reduce in (aten.amin.default, aten.amax.default):
            extreme = _cast(graph, graph.call_function(reduce, (value,)), wide)
            cells.append(graph.call_function(aten.reshape.default, (extreme, [1])))
    flat = graph.call_function(aten.cat.default, (cells,))
    return graph.call_function(aten.reshape.default, (flat, [len(nodes), 2]))


def _cast(graph: torch.fx.Graph, node: torch.fx.Node, to: torch.dtype) -> torch.fx.Node:
    convert = torch.ops.prims.convert_element_type.default
    return graph.call_function(convert, (node, to))


def _propagate(module: torch.fx.GraphModule) -> None:
    """Give the new nodes the fake values that compilers ask for."""
    from torch._guards import detect_fake_mode

    nodes = module.graph.nodes
    fake = detect_fake_mode([n.meta.get("val") for n in nodes if n.op == "placeholder"])

    def value_of(node: torch.fx.Node) -> Any:
        return node.meta["val"]

    with fake or contextlib.nullcontext():
        for node in nodes:
            if node.op == "call_function" and "val" not in node.meta:
                args = torch.fx.map_arg(node.args, value_of)
                node.meta["val"] = node.target(*args)
