# SPDX-License-Identifier: Apache-2.0
"""`Machine`: a jaxpr interpreter that computes each equation as a device does."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Final, Self

import jax
import jax.numpy as jnp
from jax.extend import source_info_util

from numcheck_jax.columns import is_float
from numcheck_jax.families import effect_of, family_of
from numcheck_jax.interpreter.cell import Cell, Frame
from numcheck_jax.interpreter.lifting import Lifting
from numcheck_jax.interpreter.loop import bodies, interpret_closed
from numcheck_jax.interpreter.rules.leaf import rebind
from numcheck_jax.interpreter.table import STAGED
from numcheck_jax.lift import LiftedTape
from numcheck_jax.simulation.device import run_on_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jax.extend.core import ClosedJaxpr, JaxprEqn

    from numcheck.simulation import Arithmetic, Profile

__all__ = ["Machine"]

_JITS: Final = ("jit", "pjit")


class Machine(LiftedTape):
    """Computes every equation with the arithmetic of a profile, and measures nothing.

    Args:
        profile: the device's arithmetic.
    """

    def __init__(self, profile: Profile) -> None:
        super().__init__(Lifting("same"))
        self.profile = profile
        self.rules = {**STAGED, **dict.fromkeys(_JITS, _compiled)}
        self.default = _simulated
        self._arithmetic = functools.cache(profile.arithmetic)
        # Compiled bodies; the jaxpr is kept, so that its id stays its own.
        self.compiled: dict[int, tuple[ClosedJaxpr, Any]] = {}

    def child(self) -> Self:
        """Return a tape of the same kind."""
        other = type(self)(self.profile)
        other.compiled = self.compiled
        return other

    @contextlib.contextmanager
    def context(self, eqn: JaxprEqn) -> Iterator[None]:
        """Keep the equation's own settings, line and scope."""
        info = eqn.source_info
        stack = source_info_util.current_name_stack() + info.name_stack
        place = source_info_util.user_context(info.traceback, name_stack=stack)
        with place, eqn.ctx.manager:
            yield

    def run(self, closed: ClosedJaxpr, values: Sequence[Any]) -> list[Any]:
        """Return a program's outputs."""
        cells = [Cell(v) for v in values]
        tape = self.child()
        return [c.value for c in interpret_closed(tape, closed, cells, Frame())]

    def arithmetic(self, eqn: JaxprEqn) -> Arithmetic | None:
        """Return how the device computes an equation; None for moves and integers."""
        effect = effect_of(eqn, reads_arrays=True)
        if effect not in ("compute", "cast"):
            return None
        if effect == "cast" and _dtype(eqn.invars[0]) == _dtype(eqn.outvars[0]):
            return None
        atoms = eqn.outvars if effect == "cast" else (*eqn.invars, *eqn.outvars)
        dtypes = map(_dtype, atoms)
        dtype = next((d for d in dtypes if d is not None and is_float(d)), None)
        if dtype is None:
            return None
        return self._arithmetic(family_of(eqn.primitive.name), jnp.dtype(dtype).name)


def _dtype(atom: Any) -> Any:
    return getattr(atom.aval, "dtype", None)


def _simulated(
    tape: Machine, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Compute one equation."""
    values = [c.value for c in operands]
    arithmetic = tape.arithmetic(eqn)
    if arithmetic is None or arithmetic.is_plain:
        return [Cell(v) for v in rebind(eqn, values)]
    place = frame.place
    is_backward = place.is_transposed and not place.is_recomputed
    found = run_on_device(eqn, values, arithmetic, is_backward=is_backward)
    return [Cell(v) for v in found]


def _compiled(
    tape: Machine, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Compile the body of a jit, as the program does."""
    body = bodies(eqn, "jaxpr")
    known = tape.compiled.get(id(body))
    if known is None:
        run = functools.partial(_run_inside, tape, body, frame)
        functools.update_wrapper(run, _run_inside)
        run.__name__ = str(eqn.params.get("name", "jit"))  # type: ignore[attr-defined]
        known = tape.compiled[id(body)] = (body, jax.jit(run))
    return [Cell(v) for v in known[1](*(c.value for c in operands))]


def _run_inside(
    tape: Machine, body: ClosedJaxpr, frame: Frame, *values: Any
) -> list[Any]:
    cells = [Cell(v) for v in values]
    return [c.value for c in interpret_closed(tape.child(), body, cells, frame)]
