# SPDX-License-Identifier: Apache-2.0
"""Finds values whose extremes are those of others, of which they are put together.

Backwards of selections scatter into zeros and add up; several weights' outputs are
made by one product and taken apart. To look at the parts is to have seen the whole.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torch.fx import Node

    from numcheck_torch.compile.table import Row

__all__ = ["Parts", "parts_of"]

aten = torch.ops.aten
_FILLS: Final[dict[Any, float]] = {
    aten.zeros.default: 0.0,
    aten.zeros_like.default: 0.0,
    aten.ones.default: 1.0,
    aten.ones_like.default: 1.0,
}
Interval = tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """What the extremes of a value are the extremes of.

    Attributes:
        rows: rows whose elements a graph looks at.
        numbers: elements that are known.
    """

    rows: tuple[int, ...] = ()
    numbers: tuple[float, ...] = ()

    def __or__(self, other: Parts) -> Parts:
        """Return both together.

        Example:
            >>> Parts((1, 2)) | Parts((2,), (0.0,))
            Parts(rows=(1, 2), numbers=(0.0,))
        """
        rows = dict.fromkeys((*self.rows, *other.rows))
        return Parts(tuple(rows), tuple({*self.numbers, *other.numbers}))


@dataclasses.dataclass(frozen=True, slots=True)
class _Scattered:
    """Parts along a dimension, between zeros."""

    dim: int
    intervals: tuple[Interval, ...]
    parts: Parts


def parts_of(rows: Sequence[Row]) -> dict[int, Parts]:
    """Return the rows that are put together, and of what.

    Args:
        rows: of one graph, in execution order.
    """
    finder = _Finder(rows)
    whole = finder.taken_apart() | finder.found
    return {number: _flat(parts, whole) for number, parts in whole.items()}


def _flat(parts: Parts, whole: Mapping[int, Parts]) -> Parts:
    """Replace rows that are put together by their own parts."""
    found = Parts(numbers=parts.numbers)
    for number in parts.rows:
        inner = whole.get(number)
        found |= Parts((number,)) if inner is None else _flat(inner, whole)
    return found


class _Finder:
    def __init__(self, rows: Sequence[Row]) -> None:
        self.found: dict[int, Parts] = {}
        self._known: dict[Node, Parts] = {}
        self._scattered: dict[Node, _Scattered] = {}
        self._slices: dict[tuple[Node, int], dict[Interval, int]] = {}
        for number, row in enumerate(rows):
            self._visit(number, row)

    def taken_apart(self) -> dict[int, Parts]:
        """Return the rows all of whose elements are in slices that are rows."""
        found: dict[int, Parts] = {}
        for (node, dim), slices in self._slices.items():
            whole = self._known.get(node, Parts())
            is_looked_at = len(whole.rows) == 1 and not whole.numbers
            if is_looked_at and _covers(slices, _value(node).shape[dim]):
                found[whole.rows[0]] = Parts(tuple(slices.values()))
        return found

    def _visit(self, number: int, row: Row) -> None:
        node = row.node
        if row.follows:
            sources = [n for n in node.all_input_nodes if n in self._known]
            if len(sources) == 1 and _is_alike(sources[0], node):
                self._known[node] = self._known[sources[0]]
            return
        if not row.is_measured:
            return
        taken = _slice(node)
        if taken is not None:
            source, dim, interval = taken
            self._slices.setdefault((source, dim), {})[interval] = number
        parts = self._parts(node)
        if parts is not None:
            self.found[number] = parts
        self._known[node] = parts or Parts((number,))

    def _parts(self, node: Node) -> Parts | None:
        """Return what a value is put together of; None where it is not."""
        target, args = node.target, node.args
        if target in _FILLS:
            return Parts(numbers=(_FILLS[target],))
        if target in (aten.full.default, aten.full_like.default):
            return _filled(node, args[1])
        if target in (aten.select_scatter.default, aten.slice_scatter.default):
            return self._scatter(node)
        if target is aten.add.Tensor and not node.kwargs:
            return self._sum(node)
        joined = args[0] if target is aten.cat.default else ()
        pieces = args[:1] if target is aten.expand.default else joined
        found = [self._known_as(piece, node) for piece in _list(pieces)]
        return _all(found) if found else None

    def _known_as(self, source: Any, node: Node) -> Parts | None:
        """Return the parts of an operand with elements of a result's dtype."""
        parts = self._known.get(source)
        return parts if parts is not None and _is_alike(source, node) else None

    def _scatter(self, node: Node) -> Parts | None:
        base, source = node.args[0], node.args[1]
        around, inside = self._known_as(base, node), self._known_as(source, node)
        where = _interval(node, 2)
        if around is None or inside is None or where is None:
            return None
        dim, (start, stop) = where
        if around.rows or stop - start == _value(node).shape[dim]:
            return None
        if around.numbers == (0.0,):
            self._scattered[node] = _Scattered(dim, ((start, stop),), inside)
        return inside | around

    def _sum(self, node: Node) -> Parts | None:
        """Return the parts of a sum of which at most one term is not zero."""
        terms = [self._scattered.get(n) for n in _list(node.args)]
        first, second = terms if len(terms) == 2 else (None, None)
        if first is None or second is None or first.dim != second.dim:
            return None
        if any(_value(n).shape != _value(node).shape for n in node.all_input_nodes):
            return None
        intervals = tuple(sorted((*first.intervals, *second.intervals)))
        if any(b[0] < a[1] for a, b in itertools.pairwise(intervals)):
            return None
        inside = first.parts | second.parts
        self._scattered[node] = _Scattered(first.dim, intervals, inside)
        is_full = _covers(intervals, _value(node).shape[first.dim])
        return inside if is_full else inside | Parts(numbers=(0.0,))


def _value(node: Node) -> torch.Tensor:
    value: torch.Tensor = node.meta["val"]
    return value


def _is_alike(before: Node, after: Node) -> bool:
    one, other = _value(before), _value(after)
    return one.dtype == other.dtype and one.device == other.device


def _list(nodes: Any) -> list[Any]:
    return [n for n in nodes if isinstance(n, torch.fx.Node)]


def _all(found: Iterable[Parts | None]) -> Parts | None:
    together = Parts()
    for parts in found:
        if parts is None:
            return None
        together |= parts
    return together


def _filled(node: Node, number: Any) -> Parts | None:
    """Return the one element of a filled value, where its format can hold it."""
    if not isinstance(number, int | float):
        return None
    kept = torch.full((), number, dtype=_value(node).dtype, device="cpu").item()
    return Parts(numbers=(float(kept),)) if kept == number else None


def _slice(node: Node) -> tuple[Node, int, Interval] | None:
    """Return what a value is a slice of, along which dimension and from where."""
    if node.target is operator.getitem:
        maker: Any = node.args[0]
        where = _interval_of_several(maker, node.args[1])
    elif node.target in (aten.select.int, aten.slice.Tensor):
        maker, where = node, _interval(node, 1)
    else:
        return None
    return None if where is None else (maker.args[0], *where)


def _interval(node: Node, first: int) -> tuple[int, Interval] | None:
    """Return the dimension and the interval that arguments from `first` on give."""
    numbers = node.args[first:]
    if node.kwargs or not all(n is None or isinstance(n, int) for n in numbers):
        return None
    whole: Any = _value(node.args[0])  # type: ignore[arg-type]
    dim, *given = numbers or (0,)
    dim = int(dim) % whole.dim()  # type: ignore[arg-type]
    size = whole.shape[dim]
    if not isinstance(size, int):
        return None
    if node.target in (aten.select.int, aten.select_scatter.default):
        index = int(given[0]) % size  # type: ignore[arg-type]
        return dim, (index, index + 1)
    start, stop, step = slice(*[*given, None, None, None][:3]).indices(size)
    return (dim, (start, stop)) if step == 1 and start < stop else None


def _interval_of_several(maker: Node, index: Any) -> tuple[int, Interval] | None:
    """Return where one output of an operator lies that takes a value apart."""
    if maker.target is aten.unbind.int:
        at = 1
    elif maker.target in (aten.split.Tensor, aten.split_with_sizes.default):
        at = 2
    else:
        return None
    dim = maker.args[at] if len(maker.args) > at else 0
    if maker.kwargs or not isinstance(dim, int) or not isinstance(index, int):
        return None
    dim %= _value(maker.args[0]).dim()  # type: ignore[arg-type]
    if at == 1:
        return dim, (index, index + 1)
    sizes = [value.shape[dim] for value in maker.meta["val"][: index + 1]]
    if not all(isinstance(size, int) for size in sizes):
        return None
    return dim, (sum(sizes[:index]), sum(sizes))


def _covers(intervals: Iterable[Interval], size: Any) -> bool:
    """Whether intervals leave nothing out of a dimension."""
    end = 0
    for start, stop in sorted(intervals):
        if start > end:
            return False
        end = max(end, stop)
    return isinstance(size, int) and end >= size
