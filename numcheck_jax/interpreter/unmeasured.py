# SPDX-License-Identifier: Apache-2.0
"""A program run equation by equation for what it gives, not for its measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numcheck_jax.interpreter.cell import Frame
from numcheck_jax.interpreter.concrete import ConcreteTape
from numcheck_jax.interpreter.loop import interpret
from numcheck_jax.interpreter.rules.refs import fresh_references
from numcheck_jax.interpreter.table import CONCRETE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

    from numcheck_jax.interpreter.cell import Cell
    from numcheck_jax.interpreter.lifting import Lifting

__all__ = ["EachEquation", "UnmeasuredTape"]


class UnmeasuredTape(ConcreteTape):
    """Runs a program; what is changed on the way its subclasses say."""

    def __init__(self, lifting: Lifting | None = None) -> None:
        super().__init__(CONCRETE, lifting)

    def measure(
        self, index: int, value: Any, shadow: Any, eqn: JaxprEqn | None = None
    ) -> None:
        """Measure nothing."""

    def run(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        """Return a program's flat outputs.

        Args:
            closed: the program.
            args: its flat arguments; references are copied.
        """
        cells = [self.unnamed(value) for value in fresh_references(closed, args)]
        consts = [self.constant(value) for value in closed.consts]
        outs = interpret(self, closed.jaxpr, consts, cells, Frame())
        return [cell.value for cell in outs]


class EachEquation(UnmeasuredTape):
    """Runs nothing ahead, so that each equation can be changed."""

    def foresee(self, jaxpr: Jaxpr, place: int, read: Callable[[Any], Cell]) -> None:
        """Run nothing ahead."""
