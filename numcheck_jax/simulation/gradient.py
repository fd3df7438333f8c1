# SPDX-License-Identifier: Apache-2.0
"""Simulated programs that can be differentiated from outside.

A rounding has no useful derivative. What a device differentiates is the program as it
was written, and then it computes that derivative with its own arithmetic; so does this:
the program and its pullback are each traced plain, and then run by the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
from jax.extend.core import jaxpr_as_fun

from numcheck_jax.columns import is_float

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jax.extend.core import ClosedJaxpr

    from numcheck_jax.simulation.machine import Machine

__all__ = ["differentiable"]


def differentiable(machine: Machine, closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """Return a function of a program's flat inputs that gives its flat outputs.

    Args:
        machine: what runs the program, and what runs its derivative.
        closed: the program.
    """
    inputs = [i for i, a in enumerate(closed.in_avals) if _is_real(a)]
    outputs = [i for i, a in enumerate(closed.out_avals) if _is_real(a)]
    function = jaxpr_as_fun(closed)

    def pulled(*values: Any) -> Any:
        """Return the real outputs, their pullback, and all outputs."""

        def real(*chosen: Any) -> Any:
            merged = list(values)
            for i, value in zip(inputs, chosen, strict=True):
                merged[i] = value
            outs = function(*merged)
            return [outs[i] for i in outputs], outs

        return jax.vjp(real, *(values[i] for i in inputs), has_aux=True)

    @jax.custom_vjp
    def run(*values: Any) -> list[Any]:
        return machine.run(closed, values)

    def forward(*values: Any) -> tuple[list[Any], Any]:
        _, pullback, outs = _traced(machine, pulled, values)
        return outs, pullback

    def backward(pullback: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
        chosen = [cotangents[i] for i in outputs]
        found = _traced(machine, lambda back, x: back(x), (pullback, chosen))
        gradients: list[Any] = [None] * len(closed.in_avals)
        for i, gradient in zip(inputs, found, strict=True):
            gradients[i] = gradient
        return tuple(gradients)

    run.defvjp(forward, backward)
    return run


def _traced(machine: Machine, function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return what a function of arrays gives when the machine runs it."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    outs = machine.run(closed, jax.tree.leaves(args))
    return jax.tree.unflatten(jax.tree.structure(shape), outs)


def _is_real(aval: Any) -> bool:
    return is_float(getattr(aval, "dtype", None)) if hasattr(aval, "dtype") else False
