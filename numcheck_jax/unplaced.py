# SPDX-License-Identifier: Apache-2.0
"""A program without the layout over devices that it was written for.

What one process runs again on its share of the arrays lies on one device; to lay it
out over all of them would mean to wait for the other processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
from jax.extend import source_info_util
from jax.extend.core import (
    ClosedJaxpr,
    Literal,
    jaxpr_as_fun,
    jaxprs_in_params,
)

from numcheck.diagnose.laboratory import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jax.extend.core import Jaxpr, JaxprEqn

__all__ = ["unplaced"]

_JITS = frozenset(("jit", "pjit"))
_CONSTRAINT = "sharding_constraint"


def unplaced(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with the layouts of its jits and constraints dropped.

    Raises:
        CannotRunError: it is written for its devices, by `shard_map` or inside a loop.
    """
    if not any(map(_is_placed, _equations(closed.jaxpr))):
        return closed

    def run(*args: Any) -> list[Any]:
        return _run(closed.jaxpr, closed.consts, args)

    made = jax.make_jaxpr(jax.jit(run))(*closed.in_avals)
    if any(map(_is_placed, _equations(made.jaxpr))):
        raise CannotRunError("refusal.laid_out")
    return made


def _run(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        operands = [read(a) for a in eqn.invars]
        if eqn.primitive.name == _CONSTRAINT:
            outs = operands
        elif eqn.primitive.name in _JITS:
            inner, info = eqn.params["jaxpr"], eqn.source_info
            names = source_info_util.current_name_stack() + info.name_stack
            with source_info_util.user_context(info.traceback, name_stack=names):
                outs = _run(inner.jaxpr, inner.consts, operands)
        else:
            outs = _bound(jaxpr, eqn, operands)
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(a) for a in jaxpr.outvars]


def _bound(jaxpr: Jaxpr, eqn: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """Bind one equation at its own line and under its own names."""
    atoms = [a for a in eqn.invars if not isinstance(a, Literal)]
    given = [
        x
        for a, x in zip(eqn.invars, operands, strict=True)
        if not isinstance(a, Literal)
    ]
    alone = jaxpr.replace(
        constvars=[], invars=atoms, outvars=list(eqn.outvars), eqns=[eqn]
    )
    return list(jaxpr_as_fun(ClosedJaxpr(alone, []))(*given))


def _equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for body in jaxprs_in_params(eqn.params):
            yield from _equations(body)


def _is_placed(eqn: JaxprEqn) -> bool:
    """Whether an equation says on which devices its values lie."""
    if eqn.primitive.name in {_CONSTRAINT, "shard_map"}:
        return True
    shardings = (
        *eqn.params.get("in_shardings", ()),
        *eqn.params.get("out_shardings", ()),
    )
    return any(isinstance(s, jax.sharding.Sharding) for s in shardings)
