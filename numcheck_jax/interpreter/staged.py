# SPDX-License-Identifier: Apache-2.0
"""The tape of a run that is being compiled: measurements become rows of the program."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, Self

import jax
import jax.numpy as jnp

from numcheck_jax.columns import is_float, is_measurable
from numcheck_jax.interpreter.cell import Cell
from numcheck_jax.interpreter.chains import chained
from numcheck_jax.interpreter.divisors import divisors, twin
from numcheck_jax.interpreter.graph import Node
from numcheck_jax.interpreter.rows import (
    NEVER,
    Rows,
    concatenated,
    departure_of,
)
from numcheck_jax.interpreter.tape import Tape
from numcheck_jax.statistics import row, rows_together, shared_row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jax.extend.core import Jaxpr, JaxprEqn, Var

    from numcheck.record.site import Family
    from numcheck_jax.columns import Measure
    from numcheck_jax.interpreter.cell import Frame
    from numcheck_jax.interpreter.lifting import Lifting
    from numcheck_jax.interpreter.tape import Rule

    Policy = Callable[[JaxprEqn], bool]

__all__ = ["StagedTape"]

_SMALL: Final = 4096
"""Elements up to which values of one shape are measured together."""

_TOGETHER: Final = 32
"""Values of a chain in one reduction: more of them compile no faster."""


class StagedTape(Tape):
    """Adds one row to the program for every value that the policy selects."""

    def __init__(
        self,
        rules: Mapping[str, Rule],
        lifting: Lifting | None = None,
        *,
        policy: Policy,
        measure: Measure,
        elements: bool,
        spread: bool = False,
        sums: Policy = lambda _eqn: True,
    ) -> None:
        """Start an empty tape.

        Args:
            rules: rule of each primitive that needs one of its own.
            lifting: how the shadow's dtypes are chosen; None runs without a shadow.
            policy: which equations are measured.
            measure: which columns a row has.
            elements: whether the elements that loops read are measured as well.
            spread: whether values are laid out over several devices by the compiler.
            sums: of which equations even large values are added up, where rows have
                columns for that; of arguments all but the optimizer's state are.
        """
        super().__init__(rules, lifting)
        self.policy = policy
        self.columns = measure
        self.elements = elements
        self.spread = spread
        self.sums = sums
        self.measured: list[int] = []
        self._blocks: list[Rows] = []
        # Small values of one shape share a reduction: each costs compile time.
        self._small: dict[Any, list[tuple[int, Any, Any]]] = {}
        self._divisors: frozenset[Var] = frozenset()
        # Values deep in chains share a reduction, whatever their size.
        self._chains: frozenset[Var] = frozenset()
        self._deep: dict[Any, list[tuple[int, Any]]] = {}

    def child(self) -> Self:
        """Return an empty tape of the same kind, for the body of an equation."""
        return type(self)(
            self.rules,
            self.lifting,
            policy=self.policy,
            measure=self.columns,
            elements=self.elements,
            spread=self.spread,
            sums=self.sums,
        )

    @property
    def has_shadow(self) -> bool:
        """Whether a lifted program runs beside."""
        return self.lifting is not None

    def foresee(self, jaxpr: Jaxpr, place: int, read: Callable[[Any], Cell]) -> None:
        """Learn which values of the jaxpr are not to be read once more."""
        if place == 0:
            # What a function hands out may divide where it was called.
            self._divisors |= divisors(jaxpr)
            self._chains |= chained(jaxpr)

    def measurable(
        self, eqn: JaxprEqn, operands: Sequence[Cell], values: Sequence[Any]
    ) -> Sequence[Any]:
        """Return the outputs, or twins where a reader changes how they are compiled."""
        if self._divisors.isdisjoint(eqn.outvars) or not self.policy(eqn):
            return values
        return twin(eqn, [cell.value for cell in operands])

    def wants(self, eqn: JaxprEqn, output: int) -> bool:
        """Whether an output gets a row.

        Values that depend on no input are left alone: XLA would fold their
        reductions at compile time, which takes seconds for each.
        """
        index = len(self.graph.nodes) - 1
        if not self.graph.nodes[index].is_live:
            return False
        return is_measurable(eqn.outvars[output].aval) and self.policy(eqn)

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
        """Note a value that a loop itself moves, where such values are measured."""
        if self.elements:
            return super().derived(
                op, family, operands, value, frame, output=output, shadow=shadow
            )
        parents = tuple(c.node for c in operands if c.node is not None)
        node = Node(parents, frame.place, is_through=True)
        return Cell(value, self.graph.add(node), shadow)

    def measure(
        self, index: int, value: Any, shadow: Any, eqn: JaxprEqn | None = None
    ) -> None:
        """Add the row of a value to the program."""
        large = value.size > _SMALL
        if eqn is not None and self._is_deep(eqn, value, summed=large):
            alike = self._deep.setdefault(jax.typeof(value), [])
            alike.append((index, value))
            if len(alike) == _TOGETHER:
                self._add_deep(jax.typeof(value))
            return
        if large:
            site = self.graph.nodes[index].site
            is_state = site is not None and site.role == "state"
            summed = self.sums(eqn) if eqn is not None else not is_state
            self.add([index], self._measured([value], [shadow], sums=summed))
            return
        # The whole type: values on other devices or in host memory stack with none.
        kind = (jax.typeof(value), value.dtype, shadow is not None)
        self._small.setdefault(kind, []).append((index, value, shadow))

    def _is_deep(self, eqn: JaxprEqn, value: Any, *, summed: bool) -> bool:
        """Whether a value is measured together with others of its chain."""
        if self._chains.isdisjoint(eqn.outvars) or self.spread or self.has_shadow:
            return False
        if summed and self.columns == "moments" and self.sums(eqn):
            return False
        return value.ndim > 0 and value.size > 0 and is_float(value.dtype)

    def _add_deep(self, kind: Any) -> None:
        """Add the rows of values of one chain to the program."""
        indices, values = zip(*self._deep.pop(kind), strict=True)
        with jax.named_scope("numcheck"):
            stats = rows_together(values, self.columns)
        count = len(values)
        gaps = jnp.zeros(0, jnp.float32)
        ran, never = jnp.ones(count, jnp.uint32), jnp.full(count, NEVER)
        self.add(list(indices), Rows(stats, ran, never, gaps))

    def _measured(
        self, values: Sequence[Any], shadows: Sequence[Any], *, sums: bool = True
    ) -> Rows:
        """Return the rows of values that are alike."""
        count = len(values)
        with jax.named_scope("numcheck"):
            if count == 1:
                stats = shared_row(
                    values[0], self.columns, apart=self.spread, sums=sums
                )[None]
            else:
                one = functools.partial(row, measure=self.columns, apart=self.spread)
                stats = jax.vmap(one)(jnp.stack(values))
            gaps = jnp.zeros(count if self.has_shadow else 0, jnp.float32)
            if shadows[0] is not None:
                pairs = zip(values, shadows, strict=True)
                gaps = jnp.stack([departure_of(v, s) for v, s in pairs])
        return Rows(stats, jnp.ones(count, jnp.uint32), jnp.full(count, NEVER), gaps)

    def add(self, nodes: list[int], rows: Rows) -> None:
        """Add rows that were made elsewhere, such as in the body of a loop."""
        self.measured.extend(nodes)
        self._blocks.append(rows)

    def rows(self) -> Rows:
        """Return all rows in the order of `measured`."""
        for kind in list(self._deep):
            self._add_deep(kind)
        while self._small:
            _, alike = self._small.popitem()
            indices, values, shadows = (
                list(column) for column in zip(*alike, strict=True)
            )
            self.add(indices, self._measured(values, shadows))
        return concatenated(self._blocks, self.columns, shadow=self.has_shadow)
