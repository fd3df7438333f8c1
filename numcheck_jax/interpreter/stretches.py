# SPDX-License-Identifier: Apache-2.0
"""Stretches of a jitted program: compiled as one, recorded equation by equation.

To compile every equation apart takes most of a replay's time. A stretch is compiled
once and hands back each of its values; barriers keep the compiler from simplifying
one equation by its neighbours, so that each still computes what it says.
"""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal

from numcheck_jax.interpreter.cell import Cell, Frame
from numcheck_jax.interpreter.lifting import Lifting
from numcheck_jax.interpreter.loop import bodies, interpret
from numcheck_jax.interpreter.rules.calls import inline, inline_jitted
from numcheck_jax.interpreter.tape import Tape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jax.extend.core import Jaxpr, JaxprEqn, Var

    from numcheck_jax.interpreter.lifting import Target
    from numcheck_jax.interpreter.tape import Rule

__all__ = ["QUICK", "Made", "Stretch", "stretches"]

_FEWEST: Final = 8
_MOST: Final = 512
_MOST_BYTES: Final = 256 * 2**20
_REPEATS: Final = 8
"""Equations of one kind, on average, from which compiling each kind once is cheaper."""

QUICK: Final = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
"""For programs that run a few times: on a CPU compiling takes most of their time."""


class Made(NamedTuple):
    """What one equation gave.

    Attributes:
        values: its outputs.
        shadows: what the lifted program has there; None where nothing differs.
    """

    values: list[Any]
    shadows: list[Any] | None


class _Evaluation(Tape):
    """Keeps what every equation gives, and measures nothing."""

    def __init__(self, rules: Mapping[str, Rule], lifting: Lifting | None) -> None:
        super().__init__(rules, lifting)
        self.default = self._evaluated
        self.jits = 0
        self.made: list[Made] = []

    def constant(self, value: Any) -> Cell:
        return Cell(value, None, self.lifted(value))

    def _evaluated(
        self, tape: Tape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
    ) -> list[Cell]:
        values, shadows = jax.tree.map(_apart, self.values_of(eqn, operands))
        made = Made(values, shadows)
        self.made.append(made)
        pairs = zip(made.values, made.shadows or [None] * len(values), strict=True)
        return [Cell(value, None, shadow) for value, shadow in pairs]


class Stretch:
    """Successive equations of one jaxpr without loops, branches or effects."""

    def __init__(self, eqns: Sequence[JaxprEqn], jaxpr: Jaxpr) -> None:
        """Take some equations of a jaxpr."""
        made = {v for e in eqns for v in e.outvars}
        read = (a for e in eqns for a in e.invars if not isinstance(a, Literal))
        self.inputs: tuple[Var, ...] = tuple(
            dict.fromkeys(v for v in read if v not in made)
        )
        self._jaxpr = jaxpr.replace(
            constvars=[], invars=list(self.inputs), outvars=[], eqns=list(eqns)
        )
        options = QUICK if jax.default_backend() == "cpu" else None
        self._compiled = jax.jit(
            self._run, static_argnames="target", compiler_options=options
        )

    def __call__(self, cells: Sequence[Cell], target: Target | None) -> list[Made]:
        """Return what each equation gives, inner ones in the place of their calls.

        Args:
            cells: the inputs.
            target: what the shadow is lifted to; None without one.
        """
        made: list[Made] = self._compiled([(c.value, c.shadow) for c in cells], target)
        return made

    def _run(self, inputs: Sequence[tuple[Any, Any]], target: Target | None) -> Any:
        from numcheck_jax.interpreter.table import CONCRETE

        tape = _Evaluation(CONCRETE, None if target is None else Lifting(target))
        cells = [Cell(value, None, shadow) for value, shadow in inputs]
        interpret(tape, self._jaxpr, (), cells, Frame())
        return tape.made


# Jaxprs never change, and what a stretch compiled serves every later step.
_KNOWN: Final[weakref.WeakKeyDictionary[Jaxpr, dict[int, Stretch]]] = (
    weakref.WeakKeyDictionary()
)


def stretches(jaxpr: Jaxpr, rules: Mapping[str, Rule]) -> Mapping[int, Stretch]:
    """Return the stretches of a jaxpr by the place of their first equation."""
    known = _KNOWN.get(jaxpr)
    if known is None:
        known = _KNOWN[jaxpr] = {
            start: Stretch(eqns, jaxpr) for start, eqns in _runs(jaxpr, rules)
        }
    return known


def _runs(
    jaxpr: Jaxpr, rules: Mapping[str, Rule]
) -> Iterator[tuple[int, list[JaxprEqn]]]:
    """Yield runs of equations that are worth compiling together."""
    run: list[JaxprEqn] = []
    leaves: list[JaxprEqn] = []
    size = start = 0
    for place, eqn in enumerate((*jaxpr.eqns, None)):
        inner = [] if eqn is None else _leaves(eqn, rules)
        more = sum(_size(leaf) for leaf in inner or ())
        full = len(leaves) + len(inner or ()) > _MOST or size + more > _MOST_BYTES
        if run and (not inner or full):
            if _pays(leaves):
                yield start, run
            run, leaves, size = [], [], 0
        if eqn is not None and inner and more <= _MOST_BYTES:
            start = start if run else place
            run.append(eqn)
            leaves += inner
            size += more


def _pays(leaves: Sequence[JaxprEqn]) -> bool:
    kinds = {
        (e.primitive.name, *(str(a.aval) for a in (*e.invars, *e.outvars)))
        for e in leaves
    }
    return len(leaves) >= _FEWEST and len(leaves) <= _REPEATS * len(kinds)


def _leaves(eqn: JaxprEqn, rules: Mapping[str, Rule]) -> list[JaxprEqn] | None:
    """Return the equations that run for one; None when it cannot be in a stretch."""
    rule = rules.get(eqn.primitive.name)
    if eqn.effects or rule not in (None, inline, inline_jitted):
        return None
    if rule is None:
        return [eqn]
    found: list[JaxprEqn] = []
    body = bodies(eqn, "jaxpr", "call_jaxpr", "fun_jaxpr")
    for inner in (body.jaxpr if isinstance(body, ClosedJaxpr) else body).eqns:
        leaves = _leaves(inner, rules)
        if leaves is None:
            return None
        found += leaves
    return found


def _size(eqn: JaxprEqn) -> int:
    avals: list[Any] = [v.aval for v in eqn.outvars]
    return sum(
        math.prod(a.shape) * np.dtype(a.dtype).itemsize
        for a in avals
        if not _is_extended(a)
    )


def _is_extended(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is None or bool(jnp.issubdtype(dtype, jax.dtypes.extended))


def _apart(value: Any) -> Any:
    """Keep the compiler from looking through a value."""
    return value if _is_extended(value) else lax.optimization_barrier(value)
