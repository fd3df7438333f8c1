# SPDX-License-Identifier: Apache-2.0
"""`scan` and `while` of a program that is compiled: rows merged over iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from numcheck_jax.interpreter.body import Body, adopt, lane
from numcheck_jax.interpreter.cell import Cell
from numcheck_jax.interpreter.rows import at_iteration, empty_like, merged
from numcheck_jax.interpreter.rules.loops import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import JaxprEqn

    from numcheck_jax.interpreter.body import Lane
    from numcheck_jax.interpreter.cell import Frame
    from numcheck_jax.interpreter.staged import StagedTape

__all__ = ["scan_merged", "while_merged"]


def scan_merged(
    tape: StagedTape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Rebuild the scan with the rows of its body in the carry."""
    p = eqn.params
    fixed, carried = p["num_consts"], p["num_carry"]
    last = fixed + carried
    lanes = [lane(tape, cell) for cell in operands]
    body = Body(tape, p["jaxpr"], frame)
    consts, init, xs = lanes[:fixed], lanes[fixed:last], lanes[last:]

    def step(state: Any, x: Any) -> Any:
        carry, rows, i = state
        found, new = body.run([*consts, *carry, *x], elements=len(x))
        rows = merged(rows, at_iteration(new, i), tape.columns)
        # Elements of a reversed scan are counted from the end, like its outputs.
        return (found[:carried], rows, i - 1 if p["reverse"] else i + 1), found[
            carried:
        ]

    first = jax.tree.map(lambda x: jax.typeof(x[0]) if p["length"] else x, xs)
    rows = empty_like(
        jax.eval_shape(
            lambda *lanes: at_iteration(
                body.run(lanes, elements=len(xs))[1], jnp.int32(0)
            ),
            *consts,
            *init,
            *first,
        )
    )
    start = jnp.int32(p["length"] - 1 if p["reverse"] else 0)
    (carry, rows, _), ys = lax.scan(
        step,
        (init, rows, start),
        xs,
        length=p["length"],
        reverse=p["reverse"],
        unroll=p["unroll"],
    )
    back = {fixed + k: k for k in range(carried)}
    nodes = [cell.node for cell in operands]
    outputs, measured = adopt(tape.graph, body, nodes, back)
    tape.add(measured, rows)
    kept = [Cell(x.value, n, x.shadow) for x, n in zip(carry, outputs, strict=False)]
    stacks = [
        tape.derived(
            "scan",
            "loop",
            [Cell(y.value, outputs[carried + k])],
            y.value,
            frame,
            output=carried + k,
            shadow=y.shadow,
        )
        for k, y in enumerate(ys)
    ]
    return [*kept, *stacks]


def while_merged(
    tape: StagedTape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Rebuild the loop with the rows of its body in the carry."""
    p = eqn.params
    tests, fixed = p["cond_nconsts"], p["body_nconsts"]
    lanes = [lane(tape, cell) for cell in operands]
    asked, consts, init = (
        lanes[:tests],
        lanes[tests : tests + fixed],
        lanes[tests + fixed :],
    )
    body = Body(tape, p["body_jaxpr"], frame)

    def goes(carry: Sequence[Lane]) -> Any:
        values = [x.value for x in (*asked, *carry)]
        return tape.decide(p["cond_jaxpr"], values)

    def step(state: Any) -> Any:
        carry, rows, i = state
        found, new = body.run([*consts, *carry], after=_freezing(goes(carry), frame))
        return found, merged(rows, at_iteration(new, i), tape.columns), i + 1

    rows = empty_like(
        jax.eval_shape(lambda c: _step_rows(body, consts, c, goes, frame), init)
    )
    carry, rows, _ = lax.while_loop(
        lambda state: jnp.any(goes(state[0])), step, (init, rows, jnp.int32(0))
    )
    back = {fixed + k: k for k in range(len(init))}
    nodes = [cell.node for cell in operands[tests:]]
    outputs, measured = adopt(tape.graph, body, nodes, back)
    tape.add(measured, rows)
    return [Cell(x.value, n, x.shadow) for x, n in zip(carry, outputs, strict=True)]


def _step_rows(
    body: Body, consts: Sequence[Lane], carry: Sequence[Lane], goes: Any, frame: Frame
) -> Any:
    """Return the rows of one iteration of a while loop."""
    _, rows = body.run([*consts, *carry], after=_freezing(goes(carry), frame))
    return at_iteration(rows, jnp.int32(0))


def _freezing(go: Any, frame: Frame) -> Any:
    """Return what keeps the finished lanes of a batched loop, or None."""
    if not jnp.ndim(go):
        return None

    def after(tape: StagedTape, found: list[Cell], cells: list[Cell]) -> list[Cell]:
        return frozen(tape, go, found, cells[len(cells) - len(found) :], frame)

    return after
