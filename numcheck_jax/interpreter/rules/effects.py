# SPDX-License-Identifier: Apache-2.0
"""Side effects of a step that is run a second time: they must not happen again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.laboratory import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import JaxprEqn

    from numcheck_jax.interpreter.cell import Cell, Frame
    from numcheck_jax.interpreter.tape import Tape

__all__ = ["silenced"]


def silenced(
    tape: Tape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Leave out a print or a callback.

    Raises:
        CannotRunError: the program goes on with what the callback returns.
    """
    if eqn.outvars:
        line = f" at {frame.line.file}:{frame.line.line}" if frame.line else ""
        msg = (
            f"the step calls {eqn.primitive.name}{line} and uses what it returns; "
            "calling it again could change the outside world"
        )
        raise CannotRunError(msg)
    return []
