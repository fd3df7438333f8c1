# SPDX-License-Identifier: Apache-2.0
"""Equations that call a body once: the body's equations stand in their place.

Derivatives were taken before the interpreter sees the program, so the rules of
custom_jvp and custom_vjp have done their work and only the function itself is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck_jax.interpreter.loop import bodies, interpret_closed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import JaxprEqn

    from numcheck_jax.interpreter.cell import Cell, Frame
    from numcheck_jax.interpreter.concrete import ConcreteTape
    from numcheck_jax.interpreter.tape import Tape

__all__ = ["inline", "inline_jitted"]


def inline(
    tape: Tape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Run the body with the equation's own operands."""
    body = bodies(eqn, "jaxpr", "call_jaxpr", "fun_jaxpr")
    return interpret_closed(tape, body, operands, frame)


def inline_jitted(
    tape: ConcreteTape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Run the body of a jit, whose stretches are compiled as the program's were."""
    tape.jits += 1
    try:
        return inline(tape, eqn, operands, frame)
    finally:
        tape.jits -= 1
