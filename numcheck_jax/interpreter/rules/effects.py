# SPDX-License-Identifier: Apache-2.0
"""Side effects of a step that is run a second time: they must not happen again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax.extend.core import DropVar

from numcheck.diagnose.laboratory import CannotRunError
from numcheck.record.notice import notice
from numcheck_jax.interpreter.cell import Cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import JaxprEqn

    from numcheck_jax.interpreter.cell import Frame
    from numcheck_jax.interpreter.tape import Tape

__all__ = ["silenced"]


def silenced(
    tape: Tape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Leave out a print or a callback.

    Raises:
        CannotRunError: the program goes on with what the callback returns.
    """
    if not all(isinstance(v, DropVar) for v in eqn.outvars):
        op = eqn.primitive.name
        if frame.line is None:
            raise CannotRunError(notice("refusal.callback", op=op))
        place = f"{frame.line.file}:{frame.line.line}"
        raise CannotRunError(notice("refusal.callback_at", op=op, place=place))
    return [Cell(None, None) for _ in eqn.outvars]
