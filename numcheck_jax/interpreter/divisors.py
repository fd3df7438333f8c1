# SPDX-License-Identifier: Apache-2.0
"""Values that divide: a compiler rewrites their division where nobody else reads them.

``a / sqrt(b)`` becomes ``a * rsqrt(b)``, and ``a / s`` with a number ``s`` becomes
``a * (1 / s)``, each a rounding away from the other. To measure such a value would make
a second reader of it, so what is measured is a twin.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

import jax
from jax import lax
from jax.extend.core import Literal

from numcheck_jax.interpreter.rules.leaf import rebind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import Jaxpr, JaxprEqn, Var

__all__ = ["divisors", "twin"]

_CHEAP: Final = frozenset(
    ("add", "div", "integer_pow", "max", "min", "mul", "pow", "sqrt", "square", "sub")
)
_SPREADING: Final = frozenset(("broadcast_in_dim", "expand_dims", "reshape", "squeeze"))
_CALLS: Final = frozenset(("jit", "pjit"))

_KNOWN: Final[weakref.WeakKeyDictionary[Jaxpr, frozenset[Var]]] = (
    weakref.WeakKeyDictionary()
)


def divisors(jaxpr: Jaxpr) -> frozenset[Var]:
    """Return the variables that something is divided by and that are cheap to repeat.

    Those of the functions it calls are among them: compilers look through calls.

    >>> import jax
    >>> jaxpr = jax.make_jaxpr(lambda x: x / jax.numpy.sqrt(x))(1.0).jaxpr
    >>> jaxpr.eqns[0].outvars[0] in divisors(jaxpr)
    True
    """
    known = _KNOWN.get(jaxpr)
    if known is None:
        cheap: set[Var] = set()
        _dividing(jaxpr, set(), cheap)
        known = _KNOWN[jaxpr] = frozenset(cheap)
    return known


def _dividing(jaxpr: Jaxpr, dividing: set[Var], cheap: set[Var]) -> set[Var]:
    """Add to the variables that divide, and return them.

    Args:
        jaxpr: whose they are.
        dividing: those that divide outside of it.
        cheap: gets what is cheap to repeat.
    """
    for eqn in reversed(jaxpr.eqns):
        name = eqn.primitive.name
        if name in _CALLS:
            body = eqn.params["jaxpr"].jaxpr
            outer = zip(body.outvars, eqn.outvars, strict=True)
            given = _variables([inner for inner, out in outer if out in dividing])
            found = _dividing(body, given, cheap)
            read = zip(body.invars, eqn.invars, strict=True)
            dividing |= _variables([atom for inner, atom in read if inner in found])
        elif name == "div":
            dividing |= _variables(eqn.invars[1:])
        if not dividing.isdisjoint(eqn.outvars):
            if name in _SPREADING:
                dividing |= _variables(eqn.invars)
            if name in _CHEAP:
                cheap.update(eqn.outvars)
    return dividing


def _variables(atoms: Sequence[Any]) -> set[Var]:
    return {atom for atom in atoms if not isinstance(atom, Literal)}


def twin(eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Return an equation's outputs computed once more, for other readers."""
    return rebind(eqn, [_apart(value) for value in values])


def _apart(value: Any) -> Any:
    return lax.optimization_barrier(value) if isinstance(value, jax.Array) else value
