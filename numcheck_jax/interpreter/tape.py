# SPDX-License-Identifier: Apache-2.0
"""The tape on which the interpreter notes every value that it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from numcheck.record.site import Site
from numcheck_jax.columns import is_measurable
from numcheck_jax.families import effect_of
from numcheck_jax.interpreter.cell import Cell
from numcheck_jax.interpreter.graph import Graph, Node
from numcheck_jax.interpreter.lifting import dtype_of
from numcheck_jax.interpreter.rules.leaf import leaf, rebind
from numcheck_jax.interpreter.sites import derived_site, equation_site, format_of
from numcheck_jax.statistics import summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

    from numcheck.record.site import Family
    from numcheck_jax.interpreter.cell import Frame
    from numcheck_jax.interpreter.lifting import Lifting

    # Staged rules take staged tapes alone; the table they stand in says so.
    Rule = Callable[[Any, JaxprEqn, Sequence[Cell], Frame], list[Cell]]

__all__ = ["Tape"]


class Tape:
    """Keeps the data-flow graph of a run; subclasses say how values are measured."""

    def __init__(
        self, rules: Mapping[str, Rule], lifting: Lifting | None = None
    ) -> None:
        """Start an empty tape.

        Args:
            rules: rule of each primitive that needs one of its own.
            lifting: how the shadow's dtypes are chosen; None runs without a shadow.
        """
        self.rules = rules
        self.default: Rule = leaf
        self.lifting = lifting
        self.graph = Graph()
        self._constants: dict[int, Cell] = {}
        self._written: dict[int, int] = {}

    def context(self, eqn: JaxprEqn) -> AbstractContextManager[Any]:
        """Return the settings under which the equation was traced."""
        manager: AbstractContextManager[Any] = eqn.ctx.manager
        return manager

    def foresee(self, jaxpr: Jaxpr, place: int, read: Callable[[Any], Cell]) -> None:
        """Prepare for the equations of a jaxpr from a place on; nothing by default."""

    def values_of(
        self, eqn: JaxprEqn, operands: Sequence[Cell]
    ) -> tuple[list[Any], list[Any] | None]:
        """Return an equation's outputs, and their shadows where anything differs."""
        values = rebind(eqn, [c.value for c in operands])
        if self.lifting is None:
            return values, None
        return values, self.lifting.beside(eqn, operands, values)

    def measure(
        self, index: int, value: Any, shadow: Any, eqn: JaxprEqn | None = None
    ) -> None:
        """Measure the value of a node that has a site, and the equation it comes of."""
        raise NotImplementedError

    def measurable(
        self, eqn: JaxprEqn, operands: Sequence[Cell], values: Sequence[Any]
    ) -> Sequence[Any]:
        """Return what is measured in the place of an equation's outputs."""
        return values

    def decide(self, closed: ClosedJaxpr, values: Sequence[Any]) -> Any:
        """Return what a loop's condition says; nothing in it is noted."""
        return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *values)[0]

    def wants(self, eqn: JaxprEqn, output: int) -> bool:
        """Whether an output gets a site: numbers do, flags and keys do not."""
        return is_measurable(eqn.outvars[output].aval)

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
                dtype=format_of(getattr(value, "dtype", "")),
                shape=tuple(np.shape(value)),
            )
            node = Node(site=site, is_live=False)
            if is_measurable(value):
                node.summary = summarize(value)
            index = self.graph.add(node)
            known = self._constants[id(value)] = Cell(value, index, self.lifted(value))
        return known

    def source(self, value: Any, site: Site) -> Cell:
        """Note a value that the program was given."""
        aval = jax.typeof(value)
        index = self.graph.add(Node(aval=aval, site=site))
        held = value[...] if hasattr(aval, "inner_aval") else value
        if is_measurable(held):
            self.measure(index, held, None)
        return Cell(value, index, self.lifted(value))

    def unnamed(self, value: Any) -> Cell:
        """Return the cell of an argument that no site stands for."""
        index = self.graph.add(Node(aval=jax.typeof(value)))
        return Cell(value, index, self.lifted(value))

    def lifted(self, value: Any) -> Any:
        """Return the shadow of a value that both programs start from, if it differs."""
        if self.lifting is None:
            return None
        shadow = self.lifting.value(value)
        return None if shadow is value else shadow

    def latest(self, ref: Cell) -> Cell:
        """Return the cell of a reference as of its last write."""
        node = self._written.get(id(ref.value), ref.node)
        return Cell(ref.value, node)

    def written(self, ref: Cell, node: int) -> None:
        """Note that a reference now holds what `node` stands for."""
        self._written[id(ref.value)] = node

    def note(
        self,
        eqn: JaxprEqn,
        operands: Sequence[Cell],
        values: Sequence[Any],
        frame: Frame,
        shadows: Sequence[Any] | None = None,
    ) -> list[Cell]:
        """Note the outputs of an equation and return their cells."""
        parents = tuple(c.node for c in operands if c.node is not None)
        effect = effect_of(eqn, reads_arrays=bool(parents))
        measured = self.measurable(eqn, operands, values)
        cells = []
        for k, value in enumerate(values):
            shadow = None if shadows is None else shadows[k]
            node = Node(parents, frame.place, eqn.outvars[k].aval)
            node.is_live = any(self.graph.nodes[p].is_live for p in parents)
            index = self.graph.add(node)
            if self.wants(eqn, k):
                node.site = equation_site(eqn, k, operands, frame, effect)
                self.measure(index, measured[k], shadow, eqn)
            cells.append(Cell(value, index, shadow))
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
        node = Node(parents, frame.place, jax.typeof(value))
        index = self.graph.add(node)
        if is_measurable(value):
            node.site = derived_site(op, family, operands, value, frame, output)
            self.measure(index, value, shadow)
        return Cell(value, index, shadow)
