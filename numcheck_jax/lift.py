# SPDX-License-Identifier: Apache-2.0
"""A program run with its lower-precision dtypes lifted to a wider one.

The jaxpr is lifted, never the user's function traced again: a function may look at
the dtypes it is given and do something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from numcheck_jax.interpreter.cell import Cell, Frame
from numcheck_jax.interpreter.lifting import Lifting, dtype_of
from numcheck_jax.interpreter.loop import interpret_closed
from numcheck_jax.interpreter.staged import StagedTape
from numcheck_jax.interpreter.table import REPLAYED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

    from numcheck_jax.interpreter.lifting import Target

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


class LiftedTape(StagedTape):
    """Computes every value in its lifted dtype and measures nothing."""

    def __init__(self, target: Lifting) -> None:
        """Evaluate with the dtypes of `target`."""
        super().__init__(
            REPLAYED, policy=lambda _eqn: False, measure="lean", elements=False
        )
        self.target = target
        self.default = self._bind

    def child(self) -> Self:
        """Return a tape of the same kind."""
        return type(self)(self.target)

    def decide(self, closed: ClosedJaxpr, values: Sequence[Any]) -> Any:
        """Return what a loop's condition says of lifted values."""
        return interpret_closed(self, closed, [Cell(v) for v in values], Frame())[
            0
        ].value

    def literal(self, atom: Literal) -> Cell:
        """Return a constant of the program in its lifted dtype."""
        dtype = dtype_of(atom)
        if not self.target.changes(dtype):
            return Cell(atom.val)
        return Cell(self.target.value(np.asarray(atom.val, dtype)))

    def constant(self, value: Any) -> Cell:
        """Return an array the program closes over in its lifted dtype."""
        return Cell(self.target.value(value))

    def _bind(
        self, tape: StagedTape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
    ) -> list[Cell]:
        values = self.target.bind(eqn, [c.value for c in operands])
        return [Cell(v) for v in values]


def evaluate(lifting: Lifting, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a program on the given arguments with its dtypes lifted."""
    tape = LiftedTape(lifting)
    cells = [Cell(lifting.value(value)) for value in args]
    outs = interpret_closed(tape, closed, cells, Frame())
    return [cell.value for cell in outs]
