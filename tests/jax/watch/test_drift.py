# SPDX-License-Identifier: Apache-2.0
"""A training whose values grow until float16 cannot hold them is warned in time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import numcheck_jax

FEATURES = jnp.eye(4) * jnp.sqrt(jnp.float32(2.0))
WEIGHTS = jnp.array([1.0, -2.0, 0.5, 3.0])


def loss_of(weights: Any, x: Any) -> Any:
    half = jnp.float16
    errors = x.astype(half) @ weights.astype(half)
    return jnp.mean(jnp.square(errors).astype(jnp.float32))


@jax.jit
def descend(weights: Any, x: Any) -> tuple[Any, Any]:
    # The curvature is 1 in every direction: each step turns the weights over and
    # makes them 5 % larger.
    loss, gradient = jax.value_and_grad(loss_of)(weights, x)
    return weights - 2.05 * gradient, loss


def test_drift_is_warned_of_at_least_20_steps_before_the_overflow() -> None:
    step = numcheck_jax.instrument(descend, every=5, on_error="record")
    weights, overflow = WEIGHTS, None
    for i in range(200):
        weights, loss = step(weights, FEATURES)
        if not np.isfinite(loss):
            overflow = i
            break
    step.numcheck.close()
    assert overflow is not None
    drifts = [f for f in step.numcheck.findings if f.id == "N713"]
    assert drifts
    assert drifts[0].severity == "warning"
    assert drifts[0].step <= overflow - 20


def test_training_that_settles_is_not_warned_of() -> None:
    @jax.jit
    def settle(weights: Any, x: Any) -> tuple[Any, Any]:
        loss, gradient = jax.value_and_grad(loss_of)(weights, x)
        return weights - 0.1 * gradient, loss

    step = numcheck_jax.instrument(settle, every=5)
    weights = 30 * WEIGHTS
    for _ in range(60):
        weights, _ = step(weights, FEATURES)
    step.numcheck.close()
    assert step.numcheck.findings == ()
