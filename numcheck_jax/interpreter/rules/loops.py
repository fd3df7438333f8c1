# SPDX-License-Identifier: Apache-2.0
"""`scan` and `while` of a concrete run, iteration by iteration."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import lax

from numcheck_jax.interpreter.cell import Cell
from numcheck_jax.interpreter.loop import interpret_closed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import JaxprEqn

    from numcheck_jax.interpreter.cell import Frame
    from numcheck_jax.interpreter.tape import Tape

__all__ = ["scan", "while_loop"]


def scan(
    tape: Tape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Run the body once an element, in the direction of the loop."""
    p = eqn.params
    fixed, carried = p["num_consts"], p["num_carry"]
    consts, sequences = operands[:fixed], operands[fixed + carried :]
    carry = list(operands[fixed : fixed + carried])
    length = p["length"]
    made: list[list[Cell]] = [[] for _ in eqn.outvars[carried:]]
    order = range(length - 1, -1, -1) if p["reverse"] else range(length)
    for i in order:
        inner = dataclasses.replace(frame, iteration=(*frame.iteration, i))
        elements = [element(tape, eqn, c, i, inner) for c in sequences]
        found = interpret_closed(tape, p["jaxpr"], [*consts, *carry, *elements], inner)
        carry = found[:carried]
        for cells, cell in zip(made, found[carried:], strict=True):
            cells.append(cell)
    stacks = [
        stacked(tape, eqn, carried + k, cells[::-1] if p["reverse"] else cells, frame)
        for k, cells in enumerate(made)
    ]
    return [*carry, *stacks]


def while_loop(
    tape: Tape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Run the body as long as the condition holds."""
    p = eqn.params
    tests, fixed = p["cond_nconsts"], p["body_nconsts"]
    asked = [c.value for c in operands[:tests]]
    consts = operands[tests : tests + fixed]
    carry = list(operands[tests + fixed :])
    i = 0
    while True:
        values = [c.value for c in carry]
        go = tape.decide(p["cond_jaxpr"], [*asked, *values])
        if not jnp.any(go):
            return carry
        inner = dataclasses.replace(frame, iteration=(*frame.iteration, i))
        found = interpret_closed(tape, p["body_jaxpr"], [*consts, *carry], inner)
        carry = frozen(tape, go, found, carry, inner) if jnp.ndim(go) else found
        i += 1


def element(tape: Tape, eqn: JaxprEqn, cell: Cell, i: int, frame: Frame) -> Cell:
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
    if not cells:
        value = jnp.zeros(aval.shape, aval.dtype)
        return tape.derived("scan", "loop", [], value, frame, output=output)
    value = jnp.stack([c.value for c in cells])
    shadow = None
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
