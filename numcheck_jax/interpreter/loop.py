# SPDX-License-Identifier: Apache-2.0
"""The interpreter's one loop."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from jax.extend.core import ClosedJaxpr, Literal

from numcheck_jax.interpreter.plan import plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import Jaxpr, JaxprEqn, Var

    from numcheck_jax.interpreter.cell import Cell, Frame
    from numcheck_jax.interpreter.tape import Tape

__all__ = ["bodies", "interpret", "interpret_closed"]


def interpret(
    tape: Tape,
    jaxpr: Jaxpr,
    consts: Sequence[Cell],
    args: Sequence[Cell],
    frame: Frame,
) -> list[Cell]:
    """Run a jaxpr equation by equation and return what it gives.

    Every equation goes through the tape's rule for its primitive, which computes its
    outputs and notes them on the tape.
    """
    env: dict[Var, Cell] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Var | Literal) -> Cell:
        return tape.literal(atom) if isinstance(atom, Literal) else env[atom]

    for place, step in enumerate(plan(jaxpr)):
        eqn = step.eqn
        tape.foresee(jaxpr, place, read)
        operands = [read(atom) for atom in eqn.invars]
        inner = dataclasses.replace(
            frame,
            place=frame.place.inside(step.place),
            line=step.line or frame.line,
        )
        rule = tape.rules.get(eqn.primitive.name, tape.default)
        with tape.context(eqn):
            outputs = rule(tape, eqn, operands, inner)
        env.update(zip(eqn.outvars, outputs, strict=True))
        for var in step.dead:
            env.pop(var, None)
    return [read(atom) for atom in jaxpr.outvars]


def interpret_closed(
    tape: Tape, closed: ClosedJaxpr | Jaxpr, args: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Run the body of a higher-order equation."""
    if isinstance(closed, ClosedJaxpr):
        consts = [tape.constant(value) for value in closed.consts]
        return interpret(tape, closed.jaxpr, consts, args, frame)
    return interpret(tape, closed, (), args, frame)


def bodies(eqn: JaxprEqn, *names: str) -> Any:
    """Return the first of the named parameters that the equation has."""
    return next(eqn.params[name] for name in names if name in eqn.params)
