# SPDX-License-Identifier: Apache-2.0
"""Lets a graph return the extremes of its values as more outputs.

Compilers fuse a reduction into the loop that makes its operand only where the two are
near one another in the graph, and over the same dimensions. What is reduced with its
dimensions kept is written where it is returned, without a copy.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import Graph, GraphModule, Node

    from numcheck_torch.compile.table import GraphTable

__all__ = ["Extra", "add_extremes"]

_NARROWEST: Final = 2
"""Bytes of the formats that reductions take."""
aten = torch.ops.aten


@dataclasses.dataclass(frozen=True, slots=True)
class Extra:
    """One extra output: the extremes of some rows, of shape (rows, 2).

    Attributes:
        rows: numbers of the table's rows, in order.
    """

    rows: tuple[int, ...]


def add_extremes(module: GraphModule, table: GraphTable) -> list[Extra]:
    """Append one output for each device and dtype to a graph; return what they hold.

    Extremes have the dtype of their values, those of formats narrower than two bytes
    float32.
    """
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for number, row in table.measured:
        value = row.node.meta["val"]
        groups.setdefault((value.device, _width(value.dtype)), []).append(number)
    if not groups:
        return []
    stacked = [_stack(module.graph, table, rows) for rows in groups.values()]
    output = module.graph.output_node()
    results: Any = output.args[0]
    output.args = ((*results, *stacked),)
    _propagate(module)
    module.graph.lint()
    module.recompile()
    return [Extra(tuple(rows)) for rows in groups.values()]


def _width(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.itemsize >= _NARROWEST else torch.float32


def _stack(graph: Graph, table: GraphTable, rows: Sequence[int]) -> Node:
    """Return a node that holds the extremes of rows of one dtype."""
    rank = max([1, *(table.rows[i].node.meta["val"].dim() for i in rows)])
    cells: dict[int, list[Node]] = {}
    for number in rows:
        row = table.rows[number]
        if row.parts is None:
            with graph.inserting_before(row.node.next):
                cells[number] = _extremes(graph, row.node, rank)
    with graph.inserting_before(graph.output_node()):
        for number in rows:
            row = table.rows[number]
            if row.parts is not None:
                found = [cells[i] for i in row.parts.rows]
                known = [_element(graph, x, row.node, rank) for x in row.parts.numbers]
                found += [[element, element] for element in known]
                cells[number] = _merged(graph, found)
        flat = [cell for number in rows for cell in cells[number]]
        together = graph.call_function(aten.cat.default, (flat,))
        return graph.call_function(aten.reshape.default, (together, [len(rows), 2]))


def _extremes(graph: Graph, node: Node, rank: int) -> list[Node]:
    """Return the smallest and the largest element, in a given number of dimensions."""
    value, kept = node, node.meta["val"]
    if kept.dtype.itemsize < _NARROWEST:
        convert = torch.ops.prims.convert_element_type.default
        value = graph.call_function(convert, (value, torch.float32))
    for _ in range(rank - kept.dim()):
        value = graph.call_function(aten.unsqueeze.default, (value, 0))
    return [
        graph.call_function(reduce, (value, list(range(rank)), True))
        for reduce in (aten.amin.default, aten.amax.default)
    ]


def _element(graph: Graph, element: float, like: Node, rank: int) -> Node:
    value = like.meta["val"]
    kind = {"dtype": _width(value.dtype), "device": value.device}
    return graph.call_function(aten.full.default, ([1] * rank, element), kind)


def _merged(graph: Graph, found: Sequence[Sequence[Node]]) -> list[Node]:
    """Return the extremes of several pairs of extremes; NaN wins."""
    low, high = found[0]
    for other_low, other_high in found[1:]:
        low = graph.call_function(aten.minimum.default, (low, other_low))
        high = graph.call_function(aten.maximum.default, (high, other_high))
    return [low, high]


def _propagate(module: GraphModule) -> None:
    """Give the new nodes the fake values that compilers ask for."""
    from torch._guards import detect_fake_mode

    nodes = module.graph.nodes
    fake = detect_fake_mode([n.meta.get("val") for n in nodes if n.op == "placeholder"])

    def value_of(node: Node) -> Any:
        return node.meta["val"]

    with fake or contextlib.nullcontext():
        for node in nodes:
            if node.op == "call_function" and "val" not in node.meta:
                args = torch.fx.map_arg(node.args, value_of)
                node.meta["val"] = node.target(*args, **node.kwargs)
