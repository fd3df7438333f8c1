# SPDX-License-Identifier: Apache-2.0
"""Equinox modules, whose functions and arrays are told apart by filters."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import numcheck_jax
from numcheck.errors import NonFiniteError

X = jax.random.normal(jax.random.key(0), (6, 4))
OPTIMIZER = optax.adam(1e-2)


class Net(eqx.Module):
    inner: eqx.nn.Linear
    outer: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        first, second = jax.random.split(key)
        self.inner = eqx.nn.Linear(4, 4, use_bias=False, key=first)
        self.outer = eqx.nn.Linear(4, 2, use_bias=False, key=second)

    def __call__(self, x: Any) -> Any:
        return jnp.log(jnp.abs(self.outer(jax.nn.tanh(self.inner(x)))))


def loss_of(net: Any, x: Any) -> Any:
    return jnp.mean(jax.vmap(net)(x) ** 2)


@eqx.filter_jit
def train_step(net: Any, state: Any, x: Any) -> Any:
    loss, grads = eqx.filter_value_and_grad(loss_of)(net, x)
    updates, state = OPTIMIZER.update(grads, state, eqx.filter(net, eqx.is_array))
    return eqx.apply_updates(net, updates), state, loss


def fresh() -> tuple[Any, Any]:
    net = Net(jax.random.key(1))
    return net, OPTIMIZER.init(eqx.filter(net, eqx.is_array))


def test_training_is_bit_equal_with_and_without_the_watch() -> None:
    watched = numcheck_jax.instrument(train_step)
    mine, plain = fresh(), fresh()
    for scale in (1.0, 0.5, 2.0):
        *mine, loss = watched(*mine, scale * X)
        *plain, wanted = train_step(*plain, scale * X)
        got = jax.tree.leaves(eqx.filter((mine, loss), eqx.is_array))
        for a, b in zip(
            got, jax.tree.leaves(eqx.filter((plain, wanted), eqx.is_array)), strict=True
        ):
            np.testing.assert_array_equal(a, b)
    watched.numcheck.close()
    assert watched.numcheck.findings == ()
    assert [e for e in watched.numcheck.events if e.name in ("fault", "note")] == []


def test_fault_in_a_module_is_named_with_operator_line_and_parameters() -> None:
    watched = numcheck_jax.instrument(train_step)
    state = fresh()
    *state, _ = watched(*state, X)
    watched(*state, jnp.zeros_like(X))
    with pytest.raises(NonFiniteError) as caught:
        watched.numcheck.close()
    found = caught.value.finding
    assert (found.site.op, found.phase, found.step) == ("log", "forward", 1)
    assert found.site.source.file.endswith("test_equinox.py")
    harm = [s.op for s in found.harm]
    assert any(".inner.weight" in op for op in harm)


def test_parameter_that_is_nan_is_named_by_its_path() -> None:
    watched = numcheck_jax.instrument(train_step, audit_first=False)
    net, state = fresh()
    net = eqx.tree_at(lambda n: n.outer.weight, net, replace_fn=lambda w: w * jnp.nan)
    watched(net, state, X)
    with pytest.raises(NonFiniteError) as caught:
        watched.numcheck.close()
    assert caught.value.finding.site.op == "parameter:net.outer.weight"
