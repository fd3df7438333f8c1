# SPDX-License-Identifier: Apache-2.0
"""A training that goes on from a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
import pytest
from flax.training.train_state import TrainState

import numcheck_jax
from numcheck.errors import NonFiniteError

if TYPE_CHECKING:
    from pathlib import Path

X = jax.random.normal(jax.random.key(0), (6, 4))
NET = nn.Dense(2, use_bias=False)


@jax.jit
def train_step(state: Any, x: Any) -> Any:
    def loss_of(params: Any) -> Any:
        return jnp.mean(jnp.log(jnp.abs(state.apply_fn(params, x))) ** 2)

    loss, grads = jax.value_and_grad(loss_of)(state.params)
    return state.apply_gradients(grads=grads), loss


def fresh() -> Any:
    params = NET.init(jax.random.key(1), X)
    return TrainState.create(apply_fn=NET.apply, params=params, tx=optax.adam(1e-2))


def test_step_after_a_restore_is_counted_and_diagnosed_from_there(
    tmp_path: Path,
) -> None:
    state = fresh()
    for _ in range(3):
        state, _ = train_step(state, X)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "state", state)
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "state", fresh())
    watched = numcheck_jax.instrument(train_step)
    watched.numcheck.step = int(restored.step)
    restored, loss = watched(restored, X)
    _, wanted = train_step(state, X)
    assert loss == wanted
    watched(restored, jnp.zeros_like(X))
    with pytest.raises(NonFiniteError) as caught:
        watched.numcheck.close()
    found = caught.value.finding
    assert (found.site.op, found.step) == ("log", 4)
    assert [e for e in watched.numcheck.events if e.name in ("fault", "note")] == []
