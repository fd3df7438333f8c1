# SPDX-License-Identifier: Apache-2.0
"""A step whose update is dropped: state as before, gradients zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from numcheck_jax import flax_nnx
from numcheck_jax.capture import is_deleted
from numcheck_jax.references import is_reference
from numcheck_jax.results import Key

if TYPE_CHECKING:
    from numcheck_jax.capture import Call
    from numcheck_jax.results import Result
    from numcheck_jax.roles import Roles

__all__ = ["without_update"]


def without_update(call: Call, result: Result, roles: Roles) -> Any:
    """Return a step's output with its state taken from before, its gradients zero.

    Modules that the step changed in place are set back. What was donated is gone, and
    stays as the step left it.
    """
    leaves = list(result.leaves)
    for position, leaf in enumerate(result.leaves):
        key = Key("out", position)
        role = roles.kept.get(key)
        if role == "gradient":
            leaves[position] = jnp.zeros_like(leaf)
        elif role in ("parameter", "state") and key in roles.was:
            old = call.leaves[roles.was[key]]
            if not is_deleted(old):
                leaves[position] = old
    if result.after:
        flax_nnx.set_back(call.args, call.kwargs, call.paths, call.leaves)
        for reference, old in zip(call.given, call.leaves, strict=True):
            if is_reference(reference) and old is not reference:
                reference[...] = old
    return jax.tree.unflatten(result.treedef, leaves)
