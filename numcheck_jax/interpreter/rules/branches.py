# SPDX-License-Identifier: Apache-2.0
"""`cond` and `switch` of a concrete run: only the branch that is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck_jax.interpreter.loop import interpret_closed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import JaxprEqn

    from numcheck_jax.interpreter.cell import Cell, Frame
    from numcheck_jax.interpreter.tape import Tape

__all__ = ["taken_branch"]


def taken_branch(
    tape: Tape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Run the branch that the index selects; indices outside are clamped."""
    branches = eqn.params["branches"]
    index = min(max(int(operands[0].value), 0), len(branches) - 1)
    return interpret_closed(tape, branches[index], operands[1:], frame)
