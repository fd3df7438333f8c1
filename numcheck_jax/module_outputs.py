# SPDX-License-Identifier: Apache-2.0
"""Which equations of a program make what a module hands to the code around it.

A program has no modules any more, only names: a value leaves its module where an
equation outside the module's scope reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax.extend.core import Literal, jaxprs_in_params

from numcheck_jax.columns import is_measurable
from numcheck_jax.scope import Place, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jax.extend.core import Jaxpr, JaxprEqn, Var

    Readers = list[tuple[str, ...]]

__all__ = ["module_outputs"]


def module_outputs(jaxpr: Jaxpr) -> frozenset[int]:
    """Return the identities of the equations whose value leaves a module, forwards."""
    outside: list[Readers] = [[()] for _ in jaxpr.outvars]
    return frozenset(id(eqn) for eqn in _leaving(jaxpr, Place(), outside))


def _leaving(
    jaxpr: Jaxpr, around: Place, outside: Sequence[Readers]
) -> Iterator[JaxprEqn]:
    """Yield the equations of a body whose value leaves a module.

    Args:
        jaxpr: the body.
        around: where its equation stands.
        outside: for each of its outputs, the scopes in which it is read.
    """
    places = [around.inside(place_of(e.source_info.name_stack)) for e in jaxpr.eqns]
    readers: dict[Var, Readers] = {}
    for eqn, place in zip(jaxpr.eqns, places, strict=True):
        for atom in eqn.invars:
            if not isinstance(atom, Literal):
                readers.setdefault(atom, []).append(place.path)
    for atom, scopes in zip(jaxpr.outvars, outside, strict=True):
        if not isinstance(atom, Literal):
            readers.setdefault(atom, []).extend(scopes)
    for eqn, place in zip(jaxpr.eqns, places, strict=True):
        if place.is_transposed or place.is_recomputed:
            continue
        outputs = [readers.get(v, []) for v in eqn.outvars]
        bodies = [
            body
            for body in jaxprs_in_params(eqn.params)
            if len(body.outvars) == len(outputs)
        ]
        for body in bodies:
            yield from _leaving(body, place, outputs)
        is_output = any(map(is_measurable, (v.aval for v in eqn.outvars)))
        if not bodies and is_output and any(_leaves(place, r) for r in outputs):
            yield eqn


def _leaves(place: Place, readers: Readers) -> bool:
    """Whether a value made at a place is read outside its module."""
    depth = len(place.path)
    return depth > 0 and any(path[:depth] != place.path for path in readers)
