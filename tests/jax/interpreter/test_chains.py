# SPDX-License-Identifier: Apache-2.0
"""Long chains of elementwise operations, measured in few reductions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcheck
import numcheck_jax
from numcheck_jax.columns import COLUMNS
from numcheck_jax.compiled import compiled_trace
from numcheck_jax.decoding import decode_rows
from numcheck_jax.interpreter.chains import chained
from numcheck_jax.statistics import rows_together

ODD = [0.0, -0.0, 1.5, -3.0, np.nan, np.inf, -np.inf, 1e-45, 6e4, 6e-8]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("measure", ["full", "range", "moments"])
def test_rows_made_together_are_those_of_each_array(dtype: str, measure: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = [jnp.asarray(rng.choice(ODD, (3, 5)), dtype) for _ in range(4)]
    table = np.asarray(jax.jit(rows_together, static_argnums=1)(arrays, measure))
    assert table.shape == (4, len(COLUMNS[measure]))
    rows = decode_rows(table, arrays[0].dtype, [15] * 4, measure)
    for array, held in zip(arrays, rows, strict=True):
        wanted = numcheck.summarize(np.asarray(array))
        assert held.is_finite == wanted.is_finite
        assert held.amin is None or held.amin == wanted.amin
        if measure == "full":
            counts = (held.nan, held.pos_inf, held.neg_inf, held.zero, held.amax)
            assert counts == (
                wanted.nan, wanted.pos_inf, wanted.neg_inf, wanted.zero, wanted.amax,
            )  # fmt: skip


def chain(x: Any, gain: Any) -> Any:
    """Return what 120 operations in a row give; jax.nn.silu is a call of its own."""
    for _ in range(20):
        x = jax.nn.silu(x * gain) + x
        x = jnp.where(x > 1.5, x - 1.0, x)
    return x, (x * x).sum()


@pytest.mark.parametrize("size", [64, 8192])
def test_long_chain_is_measured_in_few_reductions_and_left_as_it_is(size: int) -> None:
    x = jnp.linspace(-2.0, 2.0, size)
    closed = jax.make_jaxpr(chain)(x, jnp.float32(1.01))
    made = compiled_trace(closed, policy="all", measure="range")
    text = str(jax.make_jaxpr(made.function)(x, jnp.float32(1.01)))
    assert text.count(" = reduce[") < 40  # of about 80 values
    step = numcheck_jax.instrument(jax.jit(chain), level="trace", audit_first=False)
    got, wanted = step(x, 1.01), jax.jit(chain)(x, 1.01)
    step.numcheck.close()
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    view = step.numcheck.trace.at(0, 0)
    sites = [s for s in view.trace.sites if s.shape == (size,)]
    held = [view.summary(s) for s in sites if s.op == "logistic"]
    assert len(held) == 20
    value: Any = np.asarray(x, np.float64)
    for summary in held:
        scaled = value * np.float64(np.float32(1.01))
        half = 1 / (1 + np.exp(-scaled))
        assert summary is not None
        np.testing.assert_allclose(summary.amax, half.max(), rtol=1e-4)
        value = scaled * half + value
        value = np.where(value > 1.5, value - 1.0, value)


def test_chain_starts_again_behind_what_is_not_elementwise() -> None:
    def broken(x: Any) -> Any:
        for _ in range(6):
            for _ in range(10):
                x = jnp.sin(x)
            x = x @ jnp.eye(4)
        return x

    assert chained(jax.make_jaxpr(broken)(jnp.ones(4)).jaxpr) == frozenset()
    assert chained(jax.make_jaxpr(chain)(jnp.ones(4), 1.0).jaxpr) != frozenset()
