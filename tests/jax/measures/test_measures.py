# SPDX-License-Identifier: Apache-2.0
"""Measures fit optax's hooks, and say what the core says of the same arrays."""

from __future__ import annotations

import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from flax import nnx
from flax.training.train_state import TrainState
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import numcheck
from numcheck_jax import measures

DTYPES = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
FLOATS = hnp.arrays(np.float32, st.integers(0, 6), elements=st.floats(width=32))


def arrays(values: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


@given(st.lists(FLOATS, max_size=3), st.sampled_from(DTYPES))
def test_headroom_is_the_core_s_of_the_tightest_array(
    values: list[np.ndarray], dtype: str
) -> None:
    tree = [arrays(v, dtype) for v in values]
    # Compiled programs on a CPU take subnormal numbers for zeros.
    smallest = max(numcheck.finfo(dtype).smallest_normal, 2.0**-126)
    tree = [
        np.where(abs(x.astype(np.float32)) < smallest, np.zeros_like(x), x)
        for x in tree
    ]
    found = float(jax.jit(measures.headroom)(tree))
    bits = [numcheck.headroom(x) for x in tree if x.size]
    broken = any(not np.isfinite(x.astype(np.float32)).all() for x in tree)
    expected = (
        -math.inf
        if broken
        else min((b for b in bits if b is not None), default=math.inf)
    )
    assert found == pytest.approx(expected, abs=1e-5)


@given(st.lists(FLOATS, max_size=3))
def test_what_is_not_finite_is_counted(values: list[np.ndarray]) -> None:
    expected = sum(int((~np.isfinite(v)).sum()) for v in values)
    assert int(jax.jit(measures.non_finite)(values)) == expected


@pytest.mark.parametrize("fmt", ["float16", "bfloat16", "float8_e4m3fn"])
def test_flushed_is_the_share_that_a_cast_makes_zero(fmt: str) -> None:
    rng = np.random.default_rng(0)
    values = (rng.normal(size=4000) * 2.0 ** rng.integers(-40, 4, 4000)).astype(
        np.float32
    )
    lost = (numcheck.quantize(values, fmt) == 0) & (values != 0)
    found = float(measures.flushed({"a": values, "n": np.arange(3)}, fmt))
    assert found == pytest.approx(lost.sum() / (values != 0).sum(), abs=1e-6)


def test_integers_and_nothing_at_all_have_all_the_headroom() -> None:
    assert float(measures.headroom({"n": jnp.arange(3)})) == math.inf
    assert float(measures.headroom(())) == math.inf
    assert int(measures.non_finite(())) == 0
    assert float(measures.flushed((), "float16")) == 0


MONITORED = {
    "headroom": measures.headroom,
    "non_finite": measures.non_finite,
    "flushed": lambda updates: measures.flushed(updates, "float16"),
}
X = jax.random.normal(jax.random.key(0), (8, 4))


def test_a_linen_train_state_carries_the_measures() -> None:
    model = nn.Dense(2)
    state = TrainState.create(
        apply_fn=model.apply,
        params=model.init(jax.random.key(1), X),
        tx=optax.chain(optax.monitor(MONITORED), optax.sgd(0.1)),
    )

    @jax.jit
    def step(state: Any) -> tuple[Any, Any]:
        def loss(params: Any) -> jax.Array:
            return (state.apply_fn(params, X) ** 2).mean()

        gradients = jax.grad(loss)(state.params)
        return state.apply_gradients(grads=gradients), gradients

    after, gradients = step(state)
    bits = float(optax.tree.get(after.opt_state, "headroom"))
    assert bits == pytest.approx(float(measures.headroom(gradients)), abs=1e-5)
    assert int(optax.tree.get(after.opt_state, "non_finite")) == 0


def test_an_nnx_optimizer_carries_a_snapshot() -> None:
    model = nnx.Linear(4, 2, rngs=nnx.Rngs(0))
    chain = optax.chain(optax.snapshot("headroom", measures.headroom), optax.adam(1e-3))
    optimizer = nnx.Optimizer(model, chain, wrt=nnx.Param)

    @nnx.jit
    def step(model: Any, optimizer: Any) -> Any:
        gradients = nnx.grad(lambda m: (m(X) ** 2).mean() * 1e38)(model)
        optimizer.update(model, gradients)
        return gradients

    gradients = step(model, optimizer)
    held = float(np.asarray(optax.tree.get(optimizer.opt_state, "headroom")[...]))
    leaves = jax.tree.leaves(gradients)
    assert held == pytest.approx(
        min(float(numcheck.headroom(g)) for g in leaves), abs=1e-4
    )
    assert held < 4
