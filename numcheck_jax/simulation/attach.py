# SPDX-License-Identifier: Apache-2.0
"""The public call: a function that computes as a device does."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax

from numcheck.errors import ArgumentTypeError
from numcheck.simulation import load
from numcheck_jax import flax_nnx
from numcheck_jax.capture import capture
from numcheck_jax.kept_programs import KeptPrograms
from numcheck_jax.simulation.gradient import differentiable
from numcheck_jax.simulation.machine import Machine
from numcheck_jax.tracing import program_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numcheck.simulation import Profile
    from numcheck_jax.capture import Call
    from numcheck_jax.tracing import Program

__all__ = ["simulate"]


def simulate(
    function: Callable[..., Any], profile: str | os.PathLike[str] | Profile
) -> Callable[..., Any]:
    """Return a function like `function`, computing with a device's arithmetic.

    It can be jitted, vmapped, watched by `numcheck_jax.instrument` and differentiated
    backwards; a gradient is computed with the device's arithmetic too, inside or
    outside.

    Args:
        function: a training step, a loss, or what a transformation made of one. It
            is traced: its Python runs at every call, or once where it is jitted.
        profile: name of a profile (`numcheck profiles` lists them), a TOML file of
            the same form, or a `numcheck.simulation.Profile`.

    Raises:
        ArgumentTypeError: `function` cannot be called.
        ArgumentError: there is no such profile.

    Example:
        >>> import jax.numpy as jnp
        >>> simulate(jnp.exp, "ascend910a")(jnp.float16(20.0)).item()
        65504.0
    """
    given: object = function
    if not callable(given):
        kind = type(function).__name__
        raise ArgumentTypeError(f"simulate expects a function, got {kind}")
    machine = Machine(load(profile))
    programs: KeptPrograms[tuple[Program, Callable[..., list[Any]]]] = KeptPrograms()

    def program(call: Call) -> tuple[Program, Callable[..., list[Any]]]:
        found = program_of(call)
        return found, differentiable(machine, found.closed)

    @functools.wraps(function, updated=())
    def simulated(*args: Any, **kwargs: Any) -> Any:
        call = capture(function, args, kwargs, 0)
        found = None
        is_jitted = isinstance(function, jax.stages.Wrapped)
        if is_jitted:
            found = programs.find(call)
        if found is None:
            found = program(call)
            if is_jitted:
                programs.keep(call, found[0].inputs, found)
        traced, run = found
        return _returned(call, traced, run(*(call.leaves[i] for i in traced.inputs)))

    return simulated


def _returned(call: Call, program: Program, outs: list[Any]) -> Any:
    """Return what the function returns, and change the modules that it changes."""
    leaves: list[Any] = list(program.shape.leaves)
    after = list(call.leaves)
    for key, value in zip(program.outputs, outs, strict=True):
        (leaves if key.kind == "out" else after)[key.position] = value
    if program.shape.after:
        flax_nnx.set_back(call.args, call.kwargs, call.paths, after)
    return jax.tree.unflatten(program.shape.treedef, leaves)
