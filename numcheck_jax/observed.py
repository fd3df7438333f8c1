# SPDX-License-Identifier: Apache-2.0
"""What a watched step showed without being run again."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from numcheck.measure.summary import Summary
from numcheck.record.trace import Trace
from numcheck_jax.capture import is_deleted
from numcheck_jax.sentinel import is_bad, launch
from numcheck_jax.statistics import summarize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.diagnose.incident import Setting
    from numcheck_jax.capture import Call
    from numcheck_jax.results import Key, Result
    from numcheck_jax.roles import Roles
    from numcheck_jax.substitute import Substitute

__all__ = ["recorded", "scalars", "seen", "settings", "were_finite"]

_SCALES = re.compile(r"loss_?scale|dynamic_?scale", re.IGNORECASE)
_RATES = re.compile(r"hyperparams\['(learning_rate|lr)'\]$")
_NORMS = {"gradient": "gradient_norm", "parameter": "parameter_norm"}


def seen(result: Result, held: Mapping[Key, float]) -> dict[Key, Summary]:
    """Return what the user got, from the values where they are not finite.

    Args:
        result: what the call handed back.
        held: value of each scalar, norm of each other float value.
    """
    values = dict(result.items())
    return {key: _summary(values[key], norm) for key, norm in held.items()}


def _summary(leaf: Any, norm: float) -> Summary:
    size = int(np.size(leaf)) if not isinstance(leaf, jax.Array) else leaf.size
    if math.isfinite(norm) or is_deleted(leaf):
        return _of_norm(size, norm)
    found = summarize(jnp.asarray(leaf))
    # Where the step went back, the leaf is the old one and finite.
    return _of_norm(size, norm) if found.is_finite else found


def _of_norm(size: int, norm: float) -> Summary:
    """Return what the norm alone says of an array, or the value of a scalar."""
    if math.isfinite(norm):
        amax = abs(norm) if size == 1 else None
        return Summary(size, nan=0, pos_inf=0, neg_inf=0, amax=amax)
    if math.isnan(norm):
        return Summary(size, low=norm, high=norm)
    return Summary(size, nan=0, low=-abs(norm), high=abs(norm))


def were_finite(
    call: Call, roles: Roles, keys: Sequence[Key], unrelated: frozenset[int]
) -> frozenset[Key]:
    """Return the values of which what they continue was finite before the step.

    A value that continues nothing was not there before, so nothing was wrong with it.

    Args:
        call: the step.
        roles: what its values are to the user.
        keys: places of the values.
        unrelated: positions of the arguments that nothing continues after all.
    """
    continued: dict[Key, Any] = {}
    for key in keys:
        position = roles.was.get(key)
        if position is None or position in unrelated or roles.kept[key] == "gradient":
            continue
        leaf = call.leaves[position]
        if not is_deleted(leaf):
            # On a CPU no program needs to be compiled for it.
            continued[key] = np.asarray(leaf) if _is_on_cpu(leaf) else leaf
    bad = is_bad(launch(list(continued.values())).read())
    broken = {key for key, flag in zip(continued, bad, strict=True) if flag}
    return frozenset(keys) - broken


def _is_on_cpu(leaf: Any) -> bool:
    if not isinstance(leaf, jax.Array) or not leaf.is_fully_addressable:
        return False
    return all(device.platform == "cpu" for device in leaf.devices())


def scalars(roles: Roles, held: Mapping[Key, float]) -> dict[str, float]:
    """Return the loss and the Euclidean norms of all gradients and all parameters.

    What is not finite is left out.
    """
    found: dict[str, float] = {}
    for key, value in held.items():
        role = roles.kept.get(key, "output")
        if role == "loss":
            found["loss"] = value
        elif role in _NORMS:
            found[_NORMS[role]] = math.hypot(found.get(_NORMS[role], 0.0), value)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def recorded(
    call: Call, made: Substitute, rows: Any, held: Mapping[Key, float]
) -> Trace:
    """Return the trace of a step from the statistics that its program gave.

    Args:
        call: the step.
        made: the program.
        rows: what it gave.
        held: value of each scalar, norm of each other float output.
    """
    if made.traced is None:
        raise ValueError("the program measures nothing")
    found = made.traced.summaries(rows)
    for key, index, size in made.kept:
        if key in held:
            found[index] = _of_norm(size, held[key])
    meta = {"framework": "jax", "jax": jax.__version__}
    return Trace(made.sites, {(call.step, call.rank): found}, meta=meta)


def settings(call: Call, roles: Roles) -> dict[str, Setting]:
    """Return what the arguments say of the training."""
    found: dict[str, Setting] = {"framework": "jax", "device": jax.default_backend()}
    for position in roles.sources:
        name, leaf = call.names[position], call.leaves[position]
        if np.size(leaf) != 1 or is_deleted(leaf):
            continue
        if _RATES.search(name):
            found["lr"] = float(leaf)
        elif _SCALES.search(name) and _is_float(leaf):
            found["dynamic_loss_scale"] = True
            found["loss_scale"] = float(leaf)
    return found


def _is_float(leaf: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(leaf), jnp.floating))
