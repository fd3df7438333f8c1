# SPDX-License-Identifier: Apache-2.0
"""Long loops of a concrete run: compiled, except where something goes wrong.

The loop first runs compiled with one merged row for each value of its body, which
also tells in which iteration each value was first not finite. Those iterations and
their neighbours are then recorded one by one; what lies between stays merged.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Final

import jax.numpy as jnp
import numpy as np

from numcheck_jax.interpreter.advance import Advance
from numcheck_jax.interpreter.body import adopt, lane
from numcheck_jax.interpreter.cell import Cell
from numcheck_jax.interpreter.lifting import Lifting
from numcheck_jax.interpreter.rows import NEVER, decode_into
from numcheck_jax.interpreter.rules.loops import iterate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck_jax.interpreter.advance import State
    from numcheck_jax.interpreter.cell import Frame
    from numcheck_jax.interpreter.concrete import ConcreteTape
    from numcheck_jax.interpreter.lifting import Target
    from numcheck_jax.interpreter.rows import Rows
    from numcheck_jax.interpreter.rules.loops import Course, Loop

__all__ = ["run_long"]

_WINDOWS: Final = 4
"""How many different iterations of one loop are recorded with their neighbours."""


def run_long(
    tape: ConcreteTape, loop: Loop, carry: Sequence[Cell], start: int, frame: Frame
) -> list[Cell]:
    """Run a loop from iteration `start` on and return its outputs."""
    loop = dataclasses.replace(loop, consts=_with_nodes(tape, loop.consts))
    cells = _with_nodes(tape, carry)
    advance = _advance(
        loop.course,
        None if tape.lifting is None else tape.lifting.to,
        dataclasses.replace(frame, iteration=()),
    )
    fixed = (
        [lane(tape, c) for c in loop.consts],
        [lane(tape, c) for c in loop.sequences],
        list(loop.asked),
    )
    begin = advance.begin(fixed, [lane(tape, c) for c in cells], start)
    end = advance(begin, fixed, NEVER)
    stop = int(end.i)
    at = start
    made: list[list[Cell]] = []
    for first, last in (*_windows(end.rows, start, stop), (stop, stop)):
        if first > at:
            state = advance.begin(fixed, [lane(tape, c) for c in cells], at)
            state = advance(state, fixed, first) if first < stop or made else end
            cells, stacks = _merged(tape, loop, advance, state, cells, frame)
            made.append(stacks)
        for i in range(first, last):
            cells, stacks = iterate(tape, loop, cells, i, frame)
            made.append(stacks)
        at = last
    joined = [
        tape.derived(
            "scan",
            "loop",
            [stacks[k] for stacks in made],
            y.value,
            frame,
            output=loop.course.carried + k,
            shadow=y.shadow,
        )
        for k, y in enumerate(end.ys)
    ]
    return [*cells, *joined]


def _with_nodes(tape: ConcreteTape, cells: Sequence[Cell]) -> list[Cell]:
    """Give constants written in the program a node, which merged values refer to."""

    def named(cell: Cell) -> Cell:
        return cell if cell.node is not None else tape.constant(jnp.asarray(cell.value))

    return [named(cell) for cell in cells]


@functools.lru_cache(maxsize=64)
def _advance(course: Course, shadow: Target | None, frame: Frame) -> Advance:
    """Return the compiled loop; kept, since a step is often replayed again."""
    return Advance(course, None if shadow is None else Lifting(shadow), frame)


def _windows(rows: Rows, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the iterations to record one by one, as half-open ranges."""
    firsts = sorted(int(i) for i in np.unique(np.asarray(rows.first)) if i != NEVER)
    windows: list[tuple[int, int]] = []
    for i in firsts[:_WINDOWS]:
        low, high = max(start, i - 1), min(stop, i + 2)
        if windows and low <= windows[-1][1]:
            windows[-1] = (windows[-1][0], max(high, windows[-1][1]))
        else:
            windows.append((low, high))
    return windows


def _merged(
    tape: ConcreteTape,
    loop: Loop,
    advance: Advance,
    state: State,
    cells: Sequence[Cell],
    frame: Frame,
) -> tuple[list[Cell], list[Cell]]:
    """Note a run of iterations as one, and return its carry and stacked values."""
    course, fixed = loop.course, len(loop.consts)
    operands = [c.node for c in (*loop.consts, *cells, *loop.sequences)]
    back = {fixed + k: k for k in range(course.carried)}
    outputs, measured = adopt(tape.graph, advance.body, operands, back)
    decode_into(tape.graph, measured, state.rows, frame.iteration, label=course.label)
    carry = [
        Cell(x.value, n, x.shadow)
        for x, n in zip(state.carry, outputs[: course.carried], strict=True)
    ]
    return carry, [Cell(None, n) for n in outputs[course.carried :]]
