# SPDX-License-Identifier: Apache-2.0
"""Linen with TrainState and the optax transformations that look at finiteness."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax.training.dynamic_scale import DynamicScale
from flax.training.train_state import TrainState

import numcheck_jax
from numcheck.errors import NonFiniteError

X = jax.random.normal(jax.random.key(0), (6, 4))
ZEROS = jnp.zeros((6, 4))


class Net(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Dense(4, use_bias=False, name="inner")(x)
        return jnp.log(jnp.abs(nn.Dense(2, use_bias=False, name="outer")(x)))


NET = Net()
PARAMS = NET.init(jax.random.key(1), X)["params"]

OPTIMIZERS = {
    "adam": optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2)),
    "inject": optax.inject_hyperparams(optax.adam)(learning_rate=1e-2),
    "apply_if_finite": optax.apply_if_finite(optax.adam(1e-2), 5),
    "multi steps": optax.MultiSteps(optax.adam(1e-2), 2),
}


def train_step(state: Any, batch: Any) -> Any:
    def loss_of(params: Any) -> Any:
        return jnp.mean(state.apply_fn({"params": params}, batch["x"]) ** 2)

    loss, grads = jax.value_and_grad(loss_of)(state.params)
    return state.apply_gradients(grads=grads), {"loss": loss, "decay": 0.5}


def fresh(name: str) -> Any:
    params = jax.tree.map(jnp.copy, PARAMS)
    return TrainState.create(apply_fn=NET.apply, params=params, tx=OPTIMIZERS[name])


def assert_same(got: Any, wanted: Any) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("donate", [(), (0,)], ids=["kept", "donated"])
def test_training_is_bit_equal_with_and_without_the_watch(
    name: str, donate: tuple[int, ...]
) -> None:
    step = jax.jit(train_step, donate_argnums=donate)
    watched = numcheck_jax.instrument(step)
    mine, plain = fresh(name), fresh(name)
    for scale in (1.0, 0.5, 2.0):
        batch = {"x": scale * X}
        mine, metrics = watched(mine, batch)
        plain, wanted = step(plain, batch)
        assert_same((mine, metrics), (plain, wanted))
    watched.numcheck.close()
    assert [f for f in watched.numcheck.findings if f.severity == "error"] == []
    assert [e for e in watched.numcheck.events if e.name in ("fault", "note")] == []
    assert [e.step for e in watched.numcheck.events if e.name == "loss"] == [0, 1, 2]


def test_fault_in_a_linen_module_is_named_by_its_path() -> None:
    watched = numcheck_jax.instrument(jax.jit(train_step), audit_first=False)
    watched(fresh("adam"), {"x": ZEROS})
    with pytest.raises(NonFiniteError) as caught:
        watched.numcheck.close()
    found = caught.value.finding
    assert (found.site.op, found.site.scope) == ("log", "Net")
    harm = [s.op for s in found.harm]
    assert harm[0] == "loss"
    assert "parameter:state.params['inner']['kernel']" in harm


def test_update_that_apply_if_finite_drops_harms_the_loss_alone() -> None:
    watched = numcheck_jax.instrument(jax.jit(train_step), audit_first=False)
    state, _ = watched(fresh("apply_if_finite"), {"x": ZEROS})
    with pytest.raises(NonFiniteError) as caught:
        watched.numcheck.close()
    assert [s.op for s in caught.value.finding.harm] == ["loss"]
    assert_same(state.params, PARAMS)


def test_learning_rate_of_injected_hyperparameters_is_known_to_the_diagnosis() -> None:
    from numcheck_jax.capture import capture
    from numcheck_jax.observed import settings
    from numcheck_jax.roles import assign
    from numcheck_jax.tracing import program_of

    call = capture(jax.jit(train_step), (fresh("inject"), {"x": X}), {}, 0)
    known = settings(call, assign(call, program_of(call)))
    assert known["lr"] == pytest.approx(1e-2)
    assert known["framework"] == "jax"


def test_search_for_a_loss_scale_is_no_error() -> None:
    @jax.jit
    def step(w: Any, scale: Any, x: Any) -> Any:
        def loss_of(w: Any) -> Any:
            return jnp.mean((x.astype(jnp.float16) @ w).astype(jnp.float32) ** 2)

        scale, finite, loss, grads = scale.value_and_grad(loss_of)(w)
        updated = jnp.where(finite, w - 0.01 * grads.astype(w.dtype), w)
        return updated, scale, loss

    watched = numcheck_jax.instrument(step)
    w = jnp.ones((4, 2), jnp.float16)
    scale = DynamicScale(scale=2.0**24)
    for _ in range(3):
        w, scale, _ = watched(w, scale, X)
    watched.numcheck.close()
    assert float(scale.scale) < 2.0**24
    assert [f for f in watched.numcheck.findings if f.severity == "error"] == []
