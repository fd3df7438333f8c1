# SPDX-License-Identifier: Apache-2.0
"""`cond` and `switch` of a program that is compiled: rows of all branches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
from jax import lax

from numcheck_jax.interpreter.body import Body, adopt, lane
from numcheck_jax.interpreter.cell import Cell
from numcheck_jax.interpreter.graph import Node
from numcheck_jax.interpreter.rows import concatenated, empty_like

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import JaxprEqn

    from numcheck_jax.interpreter.cell import Frame
    from numcheck_jax.interpreter.staged import StagedTape

__all__ = ["switch"]


def switch(
    tape: StagedTape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Rebuild the switch; branches that are not taken give empty rows."""
    lanes = [lane(tape, cell) for cell in operands[1:]]
    bodies = [Body(tape, branch, frame) for branch in eqn.params["branches"]]
    shapes = [jax.eval_shape(lambda x, b=b: b.run(x)[1], lanes) for b in bodies]

    def branch(k: int) -> Any:
        def run(*xs: Any) -> Any:
            found, rows = bodies[k].run(xs)
            blocks = [empty_like(shape) for shape in shapes]
            blocks[k] = rows
            return found, concatenated(blocks, tape.columns, shadow=tape.has_shadow)

        return run

    found, rows = lax.switch(
        operands[0].value, [branch(k) for k in range(len(bodies))], *lanes
    )
    nodes = [cell.node for cell in operands[1:]]
    outputs: list[list[int]] = [[] for _ in found]
    measured: list[int] = []
    for body in bodies:
        ends, listed = adopt(tape.graph, body, nodes, {})
        measured += listed
        for sources, end in zip(outputs, ends, strict=True):
            sources.extend(() if end is None else (end,))
    tape.add(measured, rows)
    joined = [
        tape.graph.add(Node(tuple(sources), frame.place, is_through=True))
        for sources in outputs
    ]
    return [Cell(x.value, n, x.shadow) for x, n in zip(found, joined, strict=True)]
