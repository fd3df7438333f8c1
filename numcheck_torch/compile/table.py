# SPDX-License-Identifier: Apache-2.0
"""The operators of a compiler's graph as sites that are yet to run."""

from __future__ import annotations

import dataclasses
import operator
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.fx.experimental.symbolic_shapes import (
    free_unbacked_symbols,
    statically_known_true,
)

from numcheck_torch.compile.again import Computed
from numcheck_torch.compile.parts import parts_of
from numcheck_torch.compile.sizes import Sizes, expression_of, sizes_given
from numcheck_torch.dtypes import MONOTONE, format_name
from numcheck_torch.families import classify
from numcheck_torch.higher_order import is_higher_order
from numcheck_torch.monotone import WORTH_IT, change_of
from numcheck_torch.operators import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numcheck.record.site import Effect, Family, Phase, Site
    from numcheck_torch.compile.parts import Parts
    from numcheck_torch.compile.place import JointGraph
    from numcheck_torch.monotone import Change
    from numcheck_torch.operators import NonFiniteLiteral

__all__ = ["GraphTable", "Reference", "Row", "tabulate"]

_UNFUSED: Final = frozenset({"float32", "float64"})
Reference = tuple[str, int]
"""A value of a graph: ("input", position) or ("row", number)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One tensor made inside a graph.

    Attributes:
        site: what the recorder will add, its parents still open.
        node: the graph's node.
        parents: operands in order.
        follows: whether its extremes are those of its one operand, perhaps cast.
        change: what makes its extremes of those of its one operand.
        again: number of the row of the forward graph that it repeats.
        is_measured: whether its extremes are among the graph's extra outputs.
        parts: the others whose extremes give its own there; None when it is looked at.
        written: position of the graph's input it overwrites.
    """

    site: Site
    node: torch.fx.Node
    parents: tuple[Reference, ...]
    follows: bool
    change: Change | None
    again: int | None
    is_measured: bool
    written: int | None
    parts: Parts | None = None


@dataclasses.dataclass(slots=True, eq=False)
class GraphTable:
    """A graph of a compiled program.

    Attributes:
        phase: forward or backward.
        rows: its tensors in execution order.
        outputs: what it returns; None for what is no row and no input.
        sizes: their shapes, run by run.
        unmeasured: number of tensors whose size is only known from data.
        computed: values of the forward graph, which a backward graph computes again.
        saved: positions of the inputs of a backward graph that are among them.
    """

    phase: Phase
    rows: list[Row]
    outputs: list[Reference | None]
    sizes: Sizes
    unmeasured: int
    computed: Computed
    saved: tuple[int, ...]

    @property
    def measured(self) -> Iterator[tuple[int, Row]]:
        """The rows whose extremes the graph returns, with their numbers."""
        return ((i, row) for i, row in enumerate(self.rows) if row.is_measured)


def tabulate(
    module: torch.fx.GraphModule, phase: Phase, joint: JointGraph
) -> GraphTable:
    """Return the table of a graph as a backend gets it.

    Args:
        module: functional graph of ATen operators with fake values.
        phase: forward or backward.
        joint: what the forward and the backward graph have in common.
    """
    graph = module.graph
    references: dict[torch.fx.Node, Reference] = {}
    rows: list[Row] = []
    known = joint.forward if phase == "backward" else None
    again = {} if known is None else known.again(graph)
    inputs = graph.find_nodes(op="placeholder")
    references.update((node, ("input", i)) for i, node in enumerate(inputs))
    arguments = sizes_given(list(map(_value, inputs)))
    known_sizes = {size: 1 for _, _, size in arguments}
    for node in graph.nodes:
        if node.op == "call_function" and isinstance(_value(node), torch.Tensor):
            place = joint.place(_maker(node)[0], phase)
            references[node] = ("row", len(rows))
            row = _row(node, place, references, rows, again.get(node))
            if not _are_numbers(_shape(_value(node)), known_sizes):
                row = dataclasses.replace(row, is_measured=False)
            rows.append(row)
    for number, parts in parts_of(rows).items():
        rows[number] = dataclasses.replace(rows[number], parts=parts)
    if known is None:
        numbers = {row.node: number for number, row in enumerate(rows)}
        known = joint.forward = Computed(graph, numbers)
    shapes = [_shape(_value(row.node)) for row in rows]
    sized = [s if _are_numbers(s, known_sizes) else None for s in shapes]
    returned: Any = graph.output_node().args[0]
    return GraphTable(
        phase=phase,
        rows=rows,
        outputs=[
            references.get(n) if isinstance(n, torch.fx.Node) else None
            for n in returned
        ],
        sizes=Sizes(arguments, [shape or () for shape in sized]),
        unmeasured=sized.count(None),
        computed=known,
        saved=known.among(graph) if again else (),
    )


def _row(
    node: torch.fx.Node,
    place: Site,
    references: Mapping[torch.fx.Node, Reference],
    rows: Sequence[Row],
    again: int | None,
) -> Row:
    value = _value(node)
    maker, output = _maker(node)
    family, effect = _kind(maker)
    parents = tuple(references[n] for n in _operands(maker) if n in references)
    if effect in ("move", "cast") and len(parents) == 1:
        effect = "cast" if _is_cast(maker, value) else "move"
    site = dataclasses.replace(
        place,
        op=str(_operator(maker)),
        output=output,
        dtype=format_name(value.dtype),
        effect=effect,
        family="cast" if effect == "cast" else family,
        literals=_literals(maker),
        detail=(*_scalars(maker), *place.detail),
    )
    is_moved = effect in ("move", "cast") and family != "collective"
    follows = is_moved and _is_whole(maker, value, site.dtype)
    change = None if follows else _change(maker, value, site)
    if change is not None and not _is_known(parents[0], rows):
        change = None
    is_new = not follows and change is None and again is None
    return Row(
        site=site,
        node=node,
        parents=parents,
        follows=follows,
        change=change,
        again=again,
        is_measured=is_new and _is_readable(value, site),
        written=_written(maker, references),
    )


def _change(node: torch.fx.Node, value: torch.Tensor, site: Site) -> Change | None:
    """Return what makes a value's extremes of its operand's, where that is worth it."""
    before = _only_operand(node)
    # Compilers leave out the roundings between operators in narrower formats.
    if before is None or before.dtype != value.dtype or site.dtype not in _UNFUSED:
        return None
    if _shape(value) is None or site.effect != "compute":
        return None
    is_worth_it = statically_known_true(value.numel() >= WORTH_IT)
    if not is_worth_it or not statically_known_true(before.numel() == value.numel()):
        return None
    change = change_of(site)
    is_rounded = change is None or change.name != "sqrt" or value.device.type == "cpu"
    return change if is_rounded else None


def _is_known(reference: Reference, rows: Sequence[Row]) -> bool:
    """Whether somebody knows a value's extremes, given the rows before."""
    kind, number = reference
    if kind == "input":
        return True
    row = rows[number]
    if row.follows:
        return _is_known(row.parents[0], rows)
    return row.is_measured or row.change is not None or row.again is not None


def _value(node: torch.fx.Node) -> Any:
    return node.meta.get("val")


def _maker(node: torch.fx.Node) -> tuple[torch.fx.Node, int]:
    """Return the operator's node and which of its outputs a node stands for."""
    output: int | None = None
    while node.target is operator.getitem:
        source, index = node.args[0], node.args[1]
        if not isinstance(source, torch.fx.Node) or not isinstance(index, int):
            break
        # Of outputs inside outputs the innermost number is the operator's own.
        output = index if output is None else output
        node = source
    return node, output or 0


def _operator(node: torch.fx.Node) -> Any:
    """Return what computes, where another operator minds its random numbers."""
    target, given = node.target, node.args[:2]
    if is_higher_order(target) and str(target).endswith("_rng_state"):
        operators = [a for a in given if isinstance(a, torch._ops.OpOverload)]
        return operators[0] if operators else target
    return target


def _kind(node: torch.fx.Node) -> tuple[Family, Effect]:
    target = _operator(node)
    if isinstance(target, torch._ops.OpOverload):
        known = describe(target)
        return known.family, known.effect
    return classify("", getattr(target, "__name__", ""))


def _operands(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return the nodes whose values play a part, in order, repeats included."""
    target = node.target
    found: list[torch.fx.Node] = []
    if isinstance(target, torch._ops.OpOverload):
        known = describe(target)
        for name, value in known.operands(node.args, node.kwargs):
            if name not in known.discarded:
                torch.fx.map_arg(value, found.append)
    else:
        torch.fx.map_arg((node.args, node.kwargs), found.append)
    return found


def _scalars(node: torch.fx.Node) -> tuple[tuple[str, str | float], ...]:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return ()
    return describe(target).scalars(node.args, node.kwargs)


def _literals(node: torch.fx.Node) -> tuple[NonFiniteLiteral, ...]:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return ()
    return describe(target).literals(node.args, node.kwargs)


def _is_cast(node: torch.fx.Node, value: torch.Tensor) -> bool:
    """Whether a move changes the dtype of its one operand."""
    before = _only_operand(node)
    return before is not None and before.dtype != value.dtype


def _is_whole(node: torch.fx.Node, value: torch.Tensor, dtype: str) -> bool:
    """Whether a move or a cast keeps order and number of its one operand's elements."""
    before = _only_operand(node)
    if before is None or _shape(value) is None:
        return False
    is_ordered = MONOTONE.issuperset((format_name(before.dtype), dtype))
    if before.dtype != value.dtype and not is_ordered:
        return False
    return bool(statically_known_true(before.numel() == value.numel()))


def _only_operand(node: torch.fx.Node) -> torch.Tensor | None:
    sources = _operands(node)
    before = _value(sources[0]) if len(sources) == 1 else None
    return before if isinstance(before, torch.Tensor) else None


def _shape(value: torch.Tensor) -> tuple[Any, ...] | None:
    """Return sizes as numbers and expressions; None when only data decide them."""
    if free_unbacked_symbols(value):
        return None
    return tuple(expression_of(size) for size in value.shape)


def _are_numbers(shape: tuple[Any, ...] | None, known: Mapping[Any, int]) -> bool:
    """Whether the arguments of a run say what a tensor's sizes are."""
    return shape is not None and not any(
        getattr(size.xreplace(known), "free_symbols", ())
        for size in shape
        if not isinstance(size, int)
    )


def _is_readable(value: torch.Tensor, site: Site) -> bool:
    shape = _shape(value)
    if shape is None or 0 in shape or value.is_sparse:
        return False
    # An asynchronous collective's output must not be read before its wait.
    is_unfinished = site.family == "collective" and "wait_tensor" not in site.op
    is_written = site.effect != "uninitialised" and not is_unfinished
    return value.dtype.is_floating_point and is_written


def _written(
    node: torch.fx.Node, references: Mapping[torch.fx.Node, Reference]
) -> int | None:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return None
    for position, _ in describe(target).written:
        written = node.args[position] if position < len(node.args) else None
        if isinstance(written, torch.fx.Node):
            kind, number = references.get(written, ("row", 0))
            if kind == "input":
                return number
    return None
