# SPDX-License-Identifier: Apache-2.0
"""Values far down an uninterrupted chain of elementwise operations.

A compiler computes the whole chain again for every reduction that reads a value of it,
so that compiling one reduction for each value takes time in the square of its length.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from jax.extend.core import Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jax.extend.core import Jaxpr, JaxprEqn, Var

__all__ = ["chained"]

_DEEP: Final = 24
"""Operations from which on values count; optimizers and activations have fewer."""
_ELEMENTWISE: Final = frozenset(
    (
        "abs",
        "acos",
        "acosh",
        "add",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "ceil",
        "clamp",
        "convert_element_type",
        "cos",
        "cosh",
        "div",
        "erf",
        "erf_inv",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "integer_pow",
        "log",
        "log1p",
        "logistic",
        "max",
        "min",
        "mul",
        "neg",
        "pow",
        "rem",
        "round",
        "rsqrt",
        "select_n",
        "sign",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "sub",
        "tan",
        "tanh",
    )
)
_CALLS: Final[Mapping[str, str]] = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
}

_KNOWN: Final[weakref.WeakKeyDictionary[Jaxpr, frozenset[Var]]] = (
    weakref.WeakKeyDictionary()
)


def chained(jaxpr: Jaxpr) -> frozenset[Var]:
    """Return the variables far down a chain, those of called functions among them.

    >>> import jax, functools
    >>> chain = lambda x: functools.reduce(lambda y, _: jax.numpy.sin(y), range(30), x)
    >>> len(chained(jax.make_jaxpr(chain)(jax.numpy.ones(3)).jaxpr))
    6
    """
    known = _KNOWN.get(jaxpr)
    if known is None:
        found: set[Var] = set()
        _follow(jaxpr, [0] * len(jaxpr.invars), found)
        known = _KNOWN[jaxpr] = frozenset(found)
    return known


def _follow(jaxpr: Jaxpr, given: Sequence[int], found: set[Var]) -> list[int]:
    """Return how deep the outputs lie, given how deep the inputs do."""
    depths: dict[Var, int] = dict(zip(jaxpr.invars, given, strict=True))
    for eqn in jaxpr.eqns:
        read = [_depth(atom, depths) for atom in eqn.invars]
        depths.update(zip(eqn.outvars, _made(eqn, read, found), strict=True))
        found.update(v for v in eqn.outvars if depths[v] > _DEEP)
    return [_depth(atom, depths) for atom in jaxpr.outvars]


def _made(eqn: JaxprEqn, read: Sequence[int], found: set[Var]) -> list[int]:
    name = eqn.primitive.name
    if name in _CALLS:
        return _follow(eqn.params[_CALLS[name]].jaxpr, read, found)
    if name in _ELEMENTWISE:
        return [1 + max(read, default=0)]
    return [0] * len(eqn.outvars)


def _depth(atom: Any, depths: Mapping[Var, int]) -> int:
    return 0 if isinstance(atom, Literal) else depths.get(atom, 0)
