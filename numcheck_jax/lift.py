# SPDX-License-Identifier: Apache-2.0
"""A program run with its lower-precision dtypes lifted to a wider one.

The jaxpr is lifted, never the user's function traced again: a function may look at
the dtypes it is given and do something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck_jax.interpreter.cell import Cell, Frame
from numcheck_jax.interpreter.lifting import Lifting, Target, dtype_of
from numcheck_jax.interpreter.loop import interpret_closed
from numcheck_jax.interpreter.table import CONCRETE
from numcheck_jax.interpreter.tape import Tape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal


__all__ = ["LiftedTape", "evaluate", "lift"]


def lift(closed: ClosedJaxpr, to: Target) -> Callable[..., list[Any]]:
    """Return a program that computes what `closed` does, in lifted dtypes.

    Args:
        closed: the program.
        to: floats narrower than this are lifted to it: arguments, constants, casts,
            accumulations, loop carries. ``same`` lifts each dtype to itself and must
            give the bit-equal results.

    Returns:
        A function of the program's flat arguments that returns its flat outputs in
        their lifted dtypes.
    """
    lifting = Lifting(to)

    def lifted(*args: Any) -> list[Any]:
        return evaluate(lifting, closed, args)

    return lifted


class LiftedTape(Tape):
    """Computes every value in its lifted dtype and notes nothing."""

    def __init__(self, lifting: Lifting) -> None:
        """Evaluate with `lifting`."""
        super().__init__(CONCRETE)
        self.target = lifting
        self.default = self._bind

    def literal(self, atom: Literal) -> Cell:
        """Return a constant of the program in its lifted dtype."""
        dtype = dtype_of(atom)
        if not self.target.changes(dtype):
            return Cell(atom.val)
        return Cell(self.target.value(np.asarray(atom.val, dtype)))

    def constant(self, value: Any) -> Cell:
        """Return an array the program closes over in its lifted dtype."""
        return Cell(self.target.value(value))

    def derived(self, *args: Any, **kwargs: Any) -> Cell:
        """Pass on a value that a loop moves."""
        return Cell(args[3])

    def _bind(
        self, tape: Tape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
    ) -> list[Cell]:
        values = self.target.bind(eqn, [c.value for c in operands])
        return [Cell(v) for v in values]


def evaluate(lifting: Lifting, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a program on the given arguments with its dtypes lifted."""
    tape = LiftedTape(lifting)
    cells = [Cell(lifting.value(value)) for value in args]
    outs = interpret_closed(tape, closed, cells, Frame())
    return [cell.value for cell in outs]
