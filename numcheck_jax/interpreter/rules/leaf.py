# SPDX-License-Identifier: Apache-2.0
"""The default rule: bind the primitive and note what came out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import JaxprEqn

    from numcheck_jax.interpreter.cell import Cell, Frame
    from numcheck_jax.interpreter.tape import Tape

__all__ = ["leaf", "rebind"]


def leaf(
    tape: Tape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Compute an equation as the program does, and beside it as the shadow does."""
    values, shadows = tape.values_of(eqn, operands)
    return tape.note(eqn, operands, values, frame, shadows=shadows)


def rebind(eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Bind an equation's primitive to new operands and return all its outputs."""
    params = eqn.primitive.get_bind_params(eqn.params)
    # Before jax 0.9 the functions among the parameters came as a list of their own.
    functions, params = params if isinstance(params, tuple) else ((), params)
    found = eqn.primitive.bind(*functions, *values, **params)
    return list(found) if eqn.primitive.multiple_results else [found]
