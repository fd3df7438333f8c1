# SPDX-License-Identifier: Apache-2.0
"""Which inputs an output of a program comes from, and whether by differentiation."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from jax.extend.core import Literal, jaxprs_in_params

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jax.extend.core import ClosedJaxpr

__all__ = ["Origin", "origins"]

_INLINE = frozenset(
    {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call"}
    | {"custom_vjp_call_jaxpr", "remat", "remat2", "checkpoint"}
)


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """What a value depends on. Sets of inputs are bit masks.

    Attributes:
        direct: inputs it reaches without passing through anything differentiated, as
            a new parameter reaches the old one.
        primal: inputs it depends on through differentiated operators.
        is_backward: whether it depends on a transposed operator.
    """

    direct: int = 0
    primal: int = 0
    is_backward: bool = False

    def join(self, other: Origin) -> Origin:
        """Return what a value made from both depends on."""
        return Origin(
            self.direct | other.direct,
            self.primal | other.primal,
            self.is_backward or other.is_backward,
        )


_NOTHING = Origin()


def origins(closed: ClosedJaxpr) -> tuple[Origin, ...]:
    """Return, for each output of a program, what it depends on."""
    inputs = [Origin(direct=1 << i) for i in range(len(closed.jaxpr.invars))]
    return _through(closed.jaxpr, inputs, "")


def _through(jaxpr: Any, inputs: Sequence[Origin], outer: str) -> tuple[Origin, ...]:
    known: dict[Any, Origin] = dict(zip(jaxpr.invars, inputs, strict=True))
    for eqn in jaxpr.eqns:
        names = f"{outer}/{eqn.source_info.name_stack}"
        given = [_read(known, v) for v in eqn.invars]
        made = _inlined(eqn, given, names) or _opaque(eqn, given, names)
        known.update(zip(eqn.outvars, made, strict=True))
    return tuple(_read(known, v) for v in jaxpr.outvars)


def _read(known: Mapping[Any, Origin], variable: Any) -> Origin:
    if isinstance(variable, Literal):
        return _NOTHING
    return known.get(variable, _NOTHING)


def _inlined(eqn: Any, given: list[Origin], names: str) -> tuple[Origin, ...] | None:
    """Look inside an equation whose body takes exactly its operands."""
    if eqn.primitive.name not in _INLINE:
        return None
    body = next(jaxprs_in_params(eqn.params), None)
    if body is None or len(body.invars) != len(given):
        return None
    if len(body.outvars) != len(eqn.outvars):
        return None
    return _through(body, given, names)


def _opaque(eqn: Any, given: list[Origin], names: str) -> tuple[Origin, ...]:
    joined = _NOTHING
    for origin in given:
        joined = joined.join(origin)
    if "jvp(" in names or "transpose(" in names:
        primal = joined.direct | joined.primal
        back = joined.is_backward or "transpose(" in names
        joined = Origin(0, primal, back)
    return (joined,) * len(eqn.outvars)
