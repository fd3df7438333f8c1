# SPDX-License-Identifier: Apache-2.0
"""`scan` and `while` of a concrete run: short ones iteration by iteration."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import jax.numpy as jnp
from jax import lax

from numcheck_jax.interpreter.cell import Cell
from numcheck_jax.interpreter.loop import interpret_closed
from numcheck_jax.interpreter.plan import count_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import ClosedJaxpr, JaxprEqn

    from numcheck_jax.interpreter.cell import Frame
    from numcheck_jax.interpreter.concrete import ConcreteTape
    from numcheck_jax.interpreter.tape import Tape

__all__ = ["Course", "Loop", "frozen", "iterate", "scan", "while_loop"]

_BUDGET: Final = 512
"""Values of a loop that are recorded one by one before iterations are merged."""


@dataclasses.dataclass(frozen=True, slots=True)
class Course:
    """How a `scan` or a `while` runs, whatever its operands.

    Attributes:
        body: what one iteration computes.
        carried: number of values handed from one iteration to the next.
        length: number of iterations; None when only the condition knows.
        reverse: whether it runs from the last element to the first.
        condition: what decides whether to go on; None for a `scan`.
    """

    body: ClosedJaxpr
    carried: int
    length: int | None = None
    reverse: bool = False
    condition: ClosedJaxpr | None = None

    def label(self, i: Any) -> Any:
        """Return the number of the element that the i-th iteration reads."""
        return self.length - 1 - i if self.reverse and self.length else i


@dataclasses.dataclass(frozen=True, slots=True)
class Loop:
    """A `scan` or a `while` with its operands.

    Attributes:
        course: how it runs.
        consts: operands that stay the same.
        sequences: operands of which each iteration reads one element.
        asked: operands of the condition.
    """

    course: Course
    consts: Sequence[Cell]
    sequences: Sequence[Cell] = ()
    asked: Sequence[Any] = ()


def scan(
    tape: ConcreteTape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Run the body once an element, in the direction of the loop."""
    from numcheck_jax.interpreter.rules.long_loops import run_long

    p = eqn.params
    fixed, carried, length = p["num_consts"], p["num_carry"], p["length"]
    last = fixed + carried
    course = Course(p["jaxpr"], carried, length, p["reverse"])
    loop = Loop(course, operands[:fixed], operands[last:])
    carry = list(operands[fixed:last])
    if length > _affordable(course.body) and not course.body.effects:
        return run_long(tape, loop, carry, 0, frame)
    made: list[list[Cell]] = []
    for i in range(length):
        carry, found = iterate(tape, loop, carry, i, frame)
        made.append(found)
    order = made[::-1] if course.reverse else made
    stacks = [
        stacked(tape, eqn, k, [found[k - carried] for found in order], frame)
        for k in range(carried, len(eqn.outvars))
    ]
    return [*carry, *stacks]


def while_loop(
    tape: ConcreteTape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Run the body as long as the condition holds."""
    from numcheck_jax.interpreter.rules.long_loops import run_long

    p = eqn.params
    tests, fixed = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    course = Course(p["body_jaxpr"], len(operands) - fixed, condition=p["cond_jaxpr"])
    asked = _values(operands[:tests])
    loop = Loop(course, operands[tests:fixed], asked=asked)
    carry = list(operands[fixed:])
    most = _affordable(course.body)
    i = 0
    while jnp.any(tape.decide(p["cond_jaxpr"], [*asked, *_values(carry)])):
        if i >= most and not course.body.effects:
            return run_long(tape, loop, carry, i, frame)
        carry, _ = iterate(tape, loop, carry, i, frame)
        i += 1
    return carry


def iterate(
    tape: Tape, loop: Loop, carry: Sequence[Cell], i: int, frame: Frame
) -> tuple[list[Cell], list[Cell]]:
    """Run the i-th iteration and return the new carry and what is stacked up."""
    course = loop.course
    label = course.label(i)
    inner = dataclasses.replace(frame, iteration=(*frame.iteration, label))
    elements = [_element(tape, cell, label, inner) for cell in loop.sequences]
    operands = [*loop.consts, *carry, *elements]
    found = interpret_closed(tape, course.body, operands, inner)
    if course.condition is not None:
        go = tape.decide(course.condition, [*loop.asked, *_values(carry)])
        if jnp.ndim(go):
            found = frozen(tape, go, found, carry, inner)
    return found[: course.carried], found[course.carried :]


def _affordable(body: ClosedJaxpr) -> int:
    return _BUDGET // max(1, count_values(body.jaxpr))


def _values(cells: Sequence[Cell]) -> list[Any]:
    return [cell.value for cell in cells]


def _element(tape: Tape, cell: Cell, i: int, frame: Frame) -> Cell:
    """Return one element of a sequence that a scan reads.

    A finite sequence has finite elements, so only the elements of one that is not
    are measured apart.
    """
    # A static index would be compiled anew for every iteration.
    where = jnp.int32(i)

    def pick(x: Any) -> Any:
        return lax.dynamic_index_in_dim(x, where, keepdims=False)

    shadow = None if cell.shadow is None else pick(cell.shadow)
    value = pick(cell.value)
    if cell.node is None or not tape.graph.nodes[cell.node].is_bad:
        return Cell(value, cell.node, shadow)
    return tape.derived("scan", "loop", [cell], value, frame, shadow=shadow)


def stacked(
    tape: Tape, eqn: JaxprEqn, output: int, cells: Sequence[Cell], frame: Frame
) -> Cell:
    """Return what a scan stacks up, as one value made of all iterations' values."""
    aval: Any = eqn.outvars[output].aval
    shadow = None
    if not cells:
        value = jnp.zeros(aval.shape, aval.dtype)
    else:
        value = jnp.stack(_values(cells))
        if any(c.shadow is not None for c in cells):
            shadow = jnp.stack([c.lifted for c in cells])
    return tape.derived(
        "scan", "loop", cells, value, frame, output=output, shadow=shadow
    )


def frozen(
    tape: Tape, go: Any, found: Sequence[Cell], carry: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Keep the carry of the lanes of a batched loop that are done."""

    def keep(new: Any, old: Any) -> Any:
        mask = lax.broadcast_in_dim(go, new.shape, tuple(range(go.ndim)))
        return lax.select(mask, new, old)

    kept = []
    for new, old in zip(found, carry, strict=True):
        shadow = None
        if new.shadow is not None or old.shadow is not None:
            shadow = keep(new.lifted, old.lifted)
        value = keep(new.value, old.value)
        made = tape.derived(
            "select_n", "select", [new, old], value, frame, shadow=shadow
        )
        kept.append(made)
    return kept
