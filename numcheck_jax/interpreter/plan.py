# SPDX-License-Identifier: Apache-2.0
"""What is known of a jaxpr before it runs: places, lines, and last uses."""

from __future__ import annotations

import dataclasses
import weakref
from typing import TYPE_CHECKING, Final

from jax.extend.core import DropVar, Literal, jaxprs_in_params

from numcheck_jax.columns import is_measurable
from numcheck_jax.scope import place_of
from numcheck_jax.source import user_line

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr, JaxprEqn, Var

    from numcheck.record.site import SourceLine
    from numcheck_jax.scope import Place

__all__ = ["Step", "count_values", "plan"]


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One equation of a jaxpr.

    Attributes:
        eqn: the equation.
        place: where it stands within its jaxpr.
        line: the user's line, where its own traceback has one.
        dead: variables that nothing reads after it.
    """

    eqn: JaxprEqn
    place: Place
    line: SourceLine | None
    dead: tuple[Var, ...]


# Jaxprs never change, and tracebacks are slow to read: a step replayed a hundred
# times reads them once. An entry lives as long as its jaxpr.
_PLANS: Final[weakref.WeakKeyDictionary[Jaxpr, tuple[Step, ...]]] = (
    weakref.WeakKeyDictionary()
)

_COUNTS: Final[weakref.WeakKeyDictionary[Jaxpr, int]] = weakref.WeakKeyDictionary()


def plan(jaxpr: Jaxpr) -> tuple[Step, ...]:
    """Return the steps of a jaxpr in execution order."""
    steps = _PLANS.get(jaxpr)
    if steps is None:
        steps = _PLANS[jaxpr] = tuple(_steps(jaxpr))
    return steps


def _steps(jaxpr: Jaxpr) -> list[Step]:
    alive = {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    steps: list[Step] = []
    for eqn in reversed(jaxpr.eqns):
        touched = (*eqn.invars, *eqn.outvars)
        dead = {v for v in touched if not isinstance(v, Literal) and v not in alive}
        alive.update(dead)
        info = eqn.source_info
        kept = eqn
        if eqn.effects and dead.issuperset(eqn.outvars):
            # Its rule may leave it out where nothing reads what it gives.
            kept = eqn.replace(outvars=[DropVar(v.aval) for v in eqn.outvars])
        step = Step(kept, place_of(info.name_stack), user_line(info), tuple(dead))
        steps.append(step)
    return steps[::-1]


def count_values(jaxpr: Jaxpr) -> int:
    """Return how many numbers' arrays one run of a jaxpr makes, loops unrolled."""
    count = _COUNTS.get(jaxpr)
    if count is None:
        count = _COUNTS[jaxpr] = sum(_values_of(eqn) for eqn in jaxpr.eqns)
    return count


def _values_of(eqn: JaxprEqn) -> int:
    inner = [count_values(body) for body in jaxprs_in_params(eqn.params)]
    if eqn.primitive.name == "cond":
        return max(inner)
    own = sum(is_measurable(v.aval) for v in eqn.outvars)
    return max(own, sum(inner) * int(eqn.params.get("length", 1)))
