# SPDX-License-Identifier: Apache-2.0
"""A program run with its lower-precision dtypes lifted to a wider one.

The jaxpr is lifted, never the user's function traced again: a function may look at
the dtypes it is given and do something else.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, Final, Self

import jax
import numpy as np

from numcheck_jax.interpreter.cell import Cell, Frame
from numcheck_jax.interpreter.lifting import Lifting, dtype_of
from numcheck_jax.interpreter.loop import interpret_closed
from numcheck_jax.interpreter.rules.staged_calls import inline_sharded
from numcheck_jax.interpreter.staged import StagedTape
from numcheck_jax.interpreter.stretches import QUICK
from numcheck_jax.interpreter.table import REPLAYED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

    from numcheck_jax.interpreter.lifting import Target
    from numcheck_jax.interpreter.tape import Rule

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
    """Computes every value in its lifted dtype and measures nothing.

    What the program compiles is compiled here too, each jit once for every dtype.
    """

    def __init__(self, target: Lifting) -> None:
        """Evaluate with the dtypes of `target`."""
        super().__init__(
            _RULES, policy=lambda _eqn: False, measure="lean", elements=False
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


def _jitted(
    tape: LiftedTape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Run the body of a jit lifted and compiled."""
    del frame
    closed = eqn.params["jaxpr"]
    known = _COMPILED.setdefault(closed.jaxpr, {})
    to = tape.target.to
    # What must repeat every bit is compiled as the user's program is.
    is_inner = any(isinstance(c.value, jax.core.Tracer) for c in operands)
    is_quick = to != "same" and not is_inner and jax.default_backend() == "cpu"
    if (to, is_quick) not in known:
        shardings = (eqn.params.get(k, ()) for k in ("in_shardings", "out_shardings"))
        if closed.effects or any(map(_is_placed, itertools.chain(*shardings))):
            return inline_sharded(tape, eqn, operands, Frame())
        options = QUICK if is_quick else None
        known[to, is_quick] = jax.jit(lift(closed, to), compiler_options=options)
    return [Cell(v) for v in known[to, is_quick](*(c.value for c in operands))]


def _is_placed(sharding: Any) -> bool:
    return isinstance(sharding, jax.sharding.Sharding)


_RULES: Final[dict[str, Rule]] = {**REPLAYED, "jit": _jitted, "pjit": _jitted}
_COMPILED: Final[
    weakref.WeakKeyDictionary[Jaxpr, dict[tuple[Target, bool], Callable[..., Any]]]
] = weakref.WeakKeyDictionary()


def evaluate(lifting: Lifting, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a program on the given arguments with its dtypes lifted."""
    tape = LiftedTape(lifting)
    cells = [Cell(lifting.value(value)) for value in args]
    outs = interpret_closed(tape, closed, cells, Frame())
    return [cell.value for cell in outs]
