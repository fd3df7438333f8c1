# SPDX-License-Identifier: Apache-2.0
"""A compiler rewrites divisions; measuring what divides must not keep it from that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, PartitionSpec

import numcheck_jax

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT = {"xla_allow_excess_precision": False}
X = jax.random.uniform(jax.random.key(0), (40, 64), minval=0.1, maxval=60.0)


def normalized(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def by_adam(x: Any) -> Any:
    optimizer = optax.adam(0.1)
    gradient = jax.grad(lambda w: jnp.log(1 + jnp.mean((x @ w.T) ** 2)))(x)
    updates, state = optimizer.update(gradient, optimizer.init(x), x)
    return optax.apply_updates(x, updates), state


@jax.jit
def divided(x: Any, by: Any) -> Any:
    return x / by


@pytest.mark.parametrize(
    "function",
    [
        lambda x: 1 / jnp.sqrt(x),
        normalized,
        by_adam,
        lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True),
        lambda x: divided(x, jnp.sqrt(x)),
    ],
    ids=[
        "reciprocal of a root",
        "normalization",
        "adam",
        "by what a call gave",
        "in a call",
    ],
)
def test_measured_divisions_give_the_plain_results_bit_for_bit(
    function: Callable[[Any], Any],
) -> None:
    exact = jax.jit(function, compiler_options=EXACT)
    step = numcheck_jax.instrument(exact, audit_first=False, level="trace")
    got, wanted = step(X), exact(X)
    step.numcheck.close()
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def offloaded(x: Any) -> Any:
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["h"],
        offload_src="device",
        offload_dst="pinned_host",
    )
    block = jax.checkpoint(
        lambda v: jnp.log(checkpoint_name(v @ v.T, "h")).sum(), policy=policy
    )
    return jax.grad(block)(x[:4, :4])


def resharded(x: Any) -> Any:
    product = jnp.log(x[:4, :8] @ x[:8, :4])
    return jax.reshard(product, PartitionSpec("x", None)).sum()


@pytest.mark.parametrize("function", [offloaded, resharded])
def test_values_of_one_shape_in_different_places_are_measured_apart(
    function: Callable[[Any], Any],
) -> None:
    mesh = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        step = numcheck_jax.instrument(
            jax.jit(function), audit_first=False, level="trace"
        )
        step(jax.device_put(X, PartitionSpec()))
        step.numcheck.close()
    trace = step.numcheck.trace
    assert trace is not None
    assert "log" in {site.op for site in trace.sites}
