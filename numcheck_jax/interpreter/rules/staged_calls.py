# SPDX-License-Identifier: Apache-2.0
"""Calls in a program that is compiled: jit keeps its shardings, remat its barrier."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
from jax import lax

from numcheck_jax.interpreter.body import Body, adopt, lane
from numcheck_jax.interpreter.cell import Cell
from numcheck_jax.interpreter.loop import bodies
from numcheck_jax.interpreter.rules.calls import inline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import JaxprEqn

    from numcheck_jax.interpreter.cell import Frame
    from numcheck_jax.interpreter.staged import StagedTape

__all__ = ["inline_sharded", "remat"]


def inline_sharded(
    tape: StagedTape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Run the body of a jit with the shardings it asks for."""
    p = eqn.params
    cells = _placed(operands, p.get("in_shardings", ()))
    return _placed(inline(tape, eqn, cells, frame), p.get("out_shardings", ()))


def _placed(cells: Sequence[Cell], shardings: Sequence[Any]) -> list[Cell]:
    if not any(isinstance(s, jax.sharding.Sharding) for s in shardings):
        return list(cells)

    def put(cell: Cell, sharding: Any) -> Cell:
        if not isinstance(sharding, jax.sharding.NamedSharding):
            return cell
        value = lax.with_sharding_constraint(cell.value, sharding)
        return dataclasses.replace(cell, value=value)

    return [put(c, s) for c, s in zip(cells, shardings, strict=True)]


def remat(
    tape: StagedTape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Bind remat again around the body that also gives rows."""
    body = Body(tape, bodies(eqn, "jaxpr"), frame)
    lanes = [lane(tape, cell) for cell in operands]
    flat, shape = jax.tree.flatten(lanes)

    def run(*xs: Any) -> Any:
        return body.run(jax.tree.unflatten(shape, xs))

    closed, out_shape = jax.make_jaxpr(run, return_shape=True)(*flat)
    if closed.consts:
        # remat's body takes no constants: they become its first operands.
        count, inner = len(closed.consts), closed.jaxpr
        flat = [*closed.consts, *flat]
        closed = jax.make_jaxpr(
            lambda *xs: jax.core.eval_jaxpr(inner, xs[:count], *xs[count:])
        )(*flat)
    outs = eqn.primitive.bind(*flat, **{**eqn.params, "jaxpr": closed.jaxpr})
    found, rows = jax.tree.unflatten(jax.tree.structure(out_shape), outs)
    outputs, measured = adopt(tape.graph, body, [c.node for c in operands], {})
    tape.add(measured, rows)
    return [Cell(x.value, n, x.shadow) for x, n in zip(found, outputs, strict=True)]
