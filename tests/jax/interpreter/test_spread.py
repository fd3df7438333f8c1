# SPDX-License-Identifier: Apache-2.0
"""Measurements of values that lie on several devices gather none of them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import numcheck_jax
from numcheck_jax.columns import COLUMNS
from numcheck_jax.compiled import compiled_trace
from numcheck_jax.statistics import row

MESH = Mesh(np.array(jax.devices()[:4]), ("d",))
X = jax.device_put(jnp.ones((64, 32)), NamedSharding(MESH, PartitionSpec("d")))
W = jax.device_put(jnp.ones((32, 128)), NamedSharding(MESH, PartitionSpec(None, "d")))


def loss(w: Any, x: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ w) ** 2)


STEP = jax.value_and_grad(loss)


def gathers(function: Any) -> int:
    """How many all-gathers the compiler put into the program."""
    text = jax.jit(function).lower(W, X).compile().as_text()
    return Counter(re.findall(r"= .*? (all-gather)\(", text))["all-gather"]


@pytest.mark.parametrize("measure", COLUMNS)
@pytest.mark.parametrize("policy", ["anchors", "all"])
def test_measured_program_gathers_no_more_than_the_plain_one(
    policy: Any, measure: Any
) -> None:
    closed = jax.jit(STEP).trace(W, X).jaxpr
    made = compiled_trace(closed, policy=policy, measure=measure, spread=True)
    assert len(made.rows) >= 2
    assert gathers(made.function) == gathers(STEP)


@pytest.mark.parametrize("measure", COLUMNS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16, jnp.int32])
def test_columns_reduced_apart_are_those_reduced_together(
    dtype: Any, measure: Any
) -> None:
    values = np.array([0.0, -1.5, 3.0, 1e-6, -7.0], np.float32)
    if jnp.issubdtype(dtype, jnp.floating):
        values = np.append(values, [np.nan, np.inf, -np.inf]).astype(np.float32)
    x = jnp.asarray(values).astype(dtype)
    assert jnp.array_equal(row(x, measure, apart=True), row(x, measure))


def test_level_trace_measures_a_step_on_four_devices() -> None:
    step = numcheck_jax.instrument(jax.jit(STEP), level="trace", audit_first=False)
    step(W, X)
    step.numcheck.close()
    trace = step.numcheck.trace
    assert trace is not None
    (product,) = (
        s for s in trace.sites if s.op == "dot_general" and s.phase == "forward"
    )
    summary = trace.at(0).summary(product)
    assert summary is not None
    assert summary.amax == 32.0
