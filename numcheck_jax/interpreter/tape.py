# SPDX-License-Identifier: Apache-2.0
"""The tape on which the interpreter notes every value that it computes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.record.site import Site
from numcheck_jax.families import effect_of, family_of
from numcheck_jax.interpreter.cell import Cell
from numcheck_jax.interpreter.graph import Graph, Node
from numcheck_jax.interpreter.lifting import dtype_of
from numcheck_jax.interpreter.rules.leaf import leaf
from numcheck_jax.statistics import is_measurable, summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from jax.extend.core import JaxprEqn, Literal

    from numcheck.record.site import Effect, Family
    from numcheck_jax.interpreter.cell import Frame
    from numcheck_jax.interpreter.lifting import Lifting

    Rule = Callable[["Tape", JaxprEqn, Sequence[Cell], Frame], list[Cell]]

__all__ = ["NonFiniteFoundError", "Tape"]


class NonFiniteFoundError(Exception):
    """The first birth was recorded and the caller wanted no more."""


class Tape:
    """Notes values of a concrete run: each is measured as soon as it exists."""

    def __init__(
        self,
        rules: Mapping[str, Rule],
        *,
        lifting: Lifting | None = None,
        early_stop: bool = False,
    ) -> None:
        """Start an empty tape.

        Args:
            rules: rule of each primitive that needs one of its own.
            lifting: how the shadow's dtypes are chosen; None runs without a shadow.
            early_stop: raise `NonFiniteFoundError` after the first birth.
        """
        self.rules = rules
        self.default: Rule = leaf
        self.lifting = lifting
        self.early_stop = early_stop
        self.graph = Graph()
        self._constants: dict[int, Cell] = {}

    def context(self, eqn: JaxprEqn) -> AbstractContextManager[Any]:
        """Return the settings under which the equation was traced."""
        manager: AbstractContextManager[Any] = eqn.ctx.manager
        return manager

    def literal(self, atom: Literal) -> Cell:
        """Return the cell of a constant written in the program."""
        shadow = None
        dtype = dtype_of(atom)
        if self.lifting is not None and self.lifting.changes(dtype):
            shadow = self.lifting.value(np.asarray(atom.val, dtype))
        return Cell(atom.val, None, shadow)

    def constant(self, value: Any) -> Cell:
        """Return the cell of an array the program closes over."""
        known = self._constants.get(id(value))
        if known is None:
            site = Site(
                index=0,
                op=f"constant:{len(self._constants)}",
                phase="data",
                kind="source",
                role="constant",
                effect="move",
                dtype=str(getattr(value, "dtype", "")),
                shape=tuple(np.shape(value)),
            )
            known = self._constants[id(value)] = self.source(value, site)
        return known

    def source(self, value: Any, site: Site) -> Cell:
        """Note a value that the program was given."""
        node = Node(site=site)
        if is_measurable(value):
            node.summary = summarize(value)
        shadow = None
        dtype = getattr(value, "dtype", None)
        if self.lifting is not None and self.lifting.changes(dtype):
            shadow, node.departure = self.lifting.value(value), 0.0
        return Cell(value, self.graph.add(node), shadow)

    def note(
        self,
        eqn: JaxprEqn,
        operands: Sequence[Cell],
        values: Sequence[Any],
        frame: Frame,
        *,
        shadows: Sequence[Any] | None = None,
        effect: Effect | None = None,
    ) -> list[Cell]:
        """Note the outputs of an equation and return their cells."""
        parents = tuple(c.node for c in operands if c.node is not None)
        effect = effect or effect_of(eqn, reads_arrays=bool(parents))
        cells = []
        for k, value in enumerate(values):
            shadow = None if shadows is None else shadows[k]
            node = Node(parents, frame.place)
            node.is_dropped = type(eqn.outvars[k]).__name__ == "DropVar"
            if is_measurable(eqn.outvars[k].aval):
                node.site = _site(eqn, k, operands, frame, effect)
                self.measure(node, value, shadow)
            cells.append(Cell(value, self.graph.add(node), shadow))
            if self.early_stop and self._is_birth(node):
                raise NonFiniteFoundError
        return cells

    def derived(
        self,
        op: str,
        family: Family,
        operands: Sequence[Cell],
        value: Any,
        frame: Frame,
        *,
        output: int = 0,
        shadow: Any = None,
    ) -> Cell:
        """Note a value that a loop itself moves: an element, a stack, a kept lane."""
        parents = tuple(c.node for c in operands if c.node is not None)
        node = Node(parents, frame.place)
        if is_measurable(value):
            node.site = Site(
                index=0,
                op=op,
                phase="forward",
                effect="move",
                output=output,
                dtype=str(value.dtype),
                shape=tuple(value.shape),
                scope=frame.place.scope,
                source=frame.line,
                literals=_constants_of(operands)[0],
                iteration=frame.iteration,
                family=family,
            )
            self.measure(node, value, shadow)
        return Cell(value, self.graph.add(node), shadow)

    def measure(self, node: Node, value: Any, shadow: Any) -> None:
        """Measure a value and its departure from the shadow."""
        node.summary = summarize(value)
        if self.lifting is not None:
            node.departure = 0.0 if shadow is None else departure(value, shadow)

    def _is_birth(self, node: Node) -> bool:
        return (
            node.is_bad
            and node.site is not None
            and not node.site.literals
            and not any(self.graph.nodes[p].is_bad for p in node.parents)
        )


def departure(value: Any, shadow: Any) -> float:
    """Return the relative L2 error of a value against its shadow.

    0 when they are equal, Inf when an element is finite in one of them only, or when
    the shadow is zero and the value is not.
    """
    v, s = (np.asarray(x).astype(np.float64) for x in (value, shadow))
    finite = np.isfinite(v)
    if not np.array_equal(finite, np.isfinite(s)):
        return math.inf
    v, s = np.where(finite, v, 0.0), np.where(finite, s, 0.0)
    error, size = float(np.linalg.norm(v - s)), float(np.linalg.norm(s))
    if error == 0:
        return 0.0
    return error / size if size else math.inf


def _site(
    eqn: JaxprEqn, k: int, operands: Sequence[Cell], frame: Frame, effect: Effect
) -> Site:
    aval: Any = eqn.outvars[k].aval
    literals, detail = _constants_of(operands)
    return Site(
        index=0,
        op=eqn.primitive.name,
        phase="forward",
        effect=effect,
        output=k,
        dtype=str(aval.dtype),
        shape=tuple(aval.shape),
        scope=frame.place.scope,
        source=frame.line,
        literals=literals,
        iteration=frame.iteration,
        detail=detail,
        family=family_of(eqn.primitive.name),
    )


def _constants_of(operands: Sequence[Cell]) -> tuple[Any, Any]:
    """Return the non-finite constants among the operands, and the finite ones."""
    literals: list[str] = []
    detail: list[tuple[str, float]] = []
    for i, cell in enumerate(operands):
        if cell.node is not None or np.ndim(cell.value):
            continue
        try:
            number = float(cell.value)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            detail.append((f"operand{i}", number))
        elif math.isnan(number):
            literals.append("nan")
        else:
            literals.append("+inf" if number > 0 else "-inf")
    return tuple(literals), tuple(detail)
