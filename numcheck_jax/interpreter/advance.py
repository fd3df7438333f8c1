# SPDX-License-Identifier: Apache-2.0
"""Some iterations of a loop, compiled once for any first and last iteration."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from numcheck_jax.interpreter.body import Body
from numcheck_jax.interpreter.rows import at_iteration, empty_like, merged
from numcheck_jax.interpreter.rules.loops import frozen
from numcheck_jax.interpreter.staged import StagedTape
from numcheck_jax.interpreter.table import REPLAYED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck_jax.interpreter.body import Lane
    from numcheck_jax.interpreter.cell import Cell, Frame
    from numcheck_jax.interpreter.lifting import Lifting
    from numcheck_jax.interpreter.rows import Rows
    from numcheck_jax.interpreter.rules.loops import Course

    # Constants, sequences, and operands of the condition.
    Fixed = tuple[list[Lane], list[Lane], list[Any]]

__all__ = ["Advance", "State"]


class State(NamedTuple):
    """A loop between two iterations.

    Attributes:
        i: the next iteration, counted in the order in which they run.
        carry: what the last iteration handed on.
        ys: what is stacked up so far.
        rows: the merged rows of the iterations since `Advance.begin`.
    """

    i: Any
    carry: list[Lane]
    ys: list[Lane]
    rows: Rows


class Advance:
    """Runs iterations of one loop."""

    def __init__(self, course: Course, lifting: Lifting | None, frame: Frame) -> None:
        """Prepare to run a loop beside its lifted self."""
        tape = StagedTape(
            REPLAYED, lifting, policy=lambda _eqn: True, measure="full", elements=True
        )
        self._tape = tape
        self._frame = frame
        self._course = course
        self._carried = course.carried
        self.body = Body(tape, course.body, frame)
        self._compiled = jax.jit(self._run)
        self._shapes: Any = None

    def begin(self, fixed: Fixed, carry: list[Lane], i: int) -> State:
        """Return the state before iteration `i`, with nothing measured."""
        if self._shapes is None:
            self._shapes = jax.eval_shape(self._step, fixed, carry, jnp.int32(i))
        found, rows = self._shapes
        ys = jax.tree.map(
            lambda y: jnp.zeros((self._course.length or 0, *y.shape), y.dtype),
            found[self._carried :],
        )
        return State(jnp.int32(i), carry, ys, empty_like(rows))

    def __call__(self, state: State, fixed: Fixed, stop: Any) -> State:
        """Run up to iteration `stop`, or to the loop's own end."""
        length = self._course.length
        last = min(int(stop), length if length is not None else (1 << 31) - 1)
        end: State = self._compiled(state, fixed, jnp.int32(last))
        return end

    def _run(self, state: State, fixed: Fixed, stop: Any) -> State:
        def goes_on(state: State) -> Any:
            go = self._goes(fixed, state.carry)
            return (state.i < stop) & (True if go is None else jnp.any(go))

        return lax.while_loop(goes_on, functools.partial(self._iteration, fixed), state)

    def _iteration(self, fixed: Fixed, state: State) -> State:
        found, new = self._step(fixed, state.carry, state.i)
        carry, made = found[: self._carried], found[self._carried :]
        where = self._course.label(state.i)
        ys = jax.tree.map(
            lambda ys, y: lax.dynamic_update_index_in_dim(ys, y, where, 0),
            state.ys,
            made,
        )
        rows = merged(state.rows, at_iteration(new, state.i), self._tape.columns)
        return State(state.i + 1, carry, ys, rows)

    def _step(
        self, fixed: Fixed, carry: Sequence[Lane], i: Any
    ) -> tuple[list[Lane], Rows]:
        consts, sequences, _ = fixed
        where = self._course.label(i)
        elements = jax.tree.map(
            lambda x: lax.dynamic_index_in_dim(x, where, keepdims=False), sequences
        )
        go = self._goes(fixed, carry)
        after = None if go is None or not jnp.ndim(go) else self._freeze(go)
        return self.body.run(
            [*consts, *carry, *elements], elements=len(elements), after=after
        )

    def _freeze(self, go: Any) -> Any:
        def after(tape: StagedTape, found: list[Cell], cells: list[Cell]) -> list[Cell]:
            return frozen(tape, go, found, cells[-len(found) :], self._frame)

        return after

    def _goes(self, fixed: Fixed, carry: Sequence[Lane]) -> Any:
        if self._course.condition is None:
            return None
        values = [x.value for x in carry]
        return self._tape.decide(self._course.condition, [*fixed[2], *values])
