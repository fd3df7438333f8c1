# SPDX-License-Identifier: Apache-2.0
"""Lets a graph return the extremes of its values as more outputs.

Compilers fuse a reduction into the loop that makes its operand only where it comes soon
after it in the graph, and over the same dimensions. What is reduced with its dimensions
kept is written where it is returned, without a copy.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, Final

import torch

from numcheck_torch.compile.vicinity import Vicinity

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


def add_extremes(
    module: GraphModule, table: GraphTable, *, is_inductors: bool = False
) -> list[Extra]:
    """Append one output for each device and dtype to a graph; return what they hold.

    Extremes have the dtype of their values, those of formats narrower than two bytes
    float32.

    Args:
        module: the graph.
        table: its rows.
        is_inductors: whether Inductor compiles it.
    """
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for number, row in table.measured:
        value = _value(row.node)
        groups.setdefault((value.device, _width(value.dtype)), []).append(number)
    if not groups:
        return []
    looks = _Looks(module.graph, table, is_inductors=is_inductors)
    output = module.graph.output_node()
    with module.graph.inserting_before(output):
        stacked = [looks.stacked(rows) for rows in groups.values()]
    results: Any = output.args[0]
    output.args = ((*results, *stacked),)
    _propagate(module)
    module.graph.lint()
    module.recompile()
    return [Extra(tuple(rows)) for rows in groups.values()]


class _Looks:
    """Looks at rows, each where it is made, in one number of dimensions for all."""

    def __init__(self, graph: Graph, table: GraphTable, *, is_inductors: bool) -> None:
        self._graph = graph
        self._rows = table.rows
        self._is_inductors = is_inductors
        self._vicinity = Vicinity(graph)
        self._rank = 1
        for _, row in table.measured:
            self._rank = max(self._rank, _value(row.node).dim())
        self._found: dict[int, list[Node]] = {}
        for number, row in table.measured:
            if row.parts is None:
                with graph.inserting_before(self._vicinity.behind(row.node)):
                    self._found[number] = self._extremes(row.node)

    def stacked(self, rows: Sequence[int]) -> Node:
        """Return a node that holds the extremes of rows of one dtype."""
        flat = [cell for number in rows for cell in self._pair(number)]
        together = self._graph.call_function(aten.cat.default, (flat,))
        shape = [len(rows), 2]
        return self._graph.call_function(aten.reshape.default, (together, shape))

    def _pair(self, number: int) -> list[Node]:
        """Return the extremes of a row; NaN in one of its parts wins."""
        parts, like = self._rows[number].parts, self._rows[number].node
        if parts is None:
            return self._found[number]
        known = [self._element(element, like) for element in parts.numbers]
        pairs = [self._found[i] for i in parts.rows] + [[x, x] for x in known]
        low, high = pairs[0]
        for other_low, other_high in pairs[1:]:
            low = self._graph.call_function(aten.minimum.default, (low, other_low))
            high = self._graph.call_function(aten.maximum.default, (high, other_high))
        return [low, high]

    def _extremes(self, node: Node) -> list[Node]:
        """Return the smallest and the largest element of a value."""
        value, call = _value(node), self._graph.call_function
        every, found = list(range(self._rank)), []
        for reduce in (aten.amin.default, aten.amax.default):
            seen = node
            if self._is_inductors and value.device.type == "cpu":
                seen = self._vicinity.again(node)
            if value.dtype.itemsize < _NARROWEST:
                convert = torch.ops.prims.convert_element_type.default
                seen = call(convert, (seen, torch.float32))
            for _ in range(self._rank - value.dim()):
                seen = call(aten.unsqueeze.default, (seen, 0))
            found.append(call(reduce, (seen, every, True)))
        return found

    def _element(self, element: float, like: Node) -> Node:
        value = _value(like)
        kind: dict[str, Any] = {"dtype": _width(value.dtype), "device": value.device}
        shape = [1] * self._rank
        return self._graph.call_function(aten.full.default, (shape, element), kind)


def _value(node: Node) -> torch.Tensor:
    value: torch.Tensor = node.meta["val"]
    return value


def _width(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.itemsize >= _NARROWEST else torch.float32


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
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), value_of)
                node.meta["val"] = node.target(*args, **kwargs)
