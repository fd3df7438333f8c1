# SPDX-License-Identifier: Apache-2.0
"""Long loops are merged where they are healthy and recorded where they are not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.jax.interpreter.recording import births, recorded


def growing(factor: float) -> Any:
    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: (c * factor, c.sum()), x, None, length=3000)

    return f


def test_healthy_loop_is_one_site_for_each_value() -> None:
    x = jnp.ones(4)
    builder, recording = recorded(growing(0.999), x)
    (product,) = (s for s in builder.sites if s.op == "mul")
    held = builder.summaries[product.index]
    assert held.n == 4 * 3000
    assert held.amax == np.float32(0.999)
    wanted = jax.jit(growing(0.999))(x)
    for got, value in zip(recording.outs, wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-5)


def test_iteration_of_an_overflow_is_exact() -> None:
    builder, recording = recorded(growing(1.5), jnp.ones(4))
    c, first = np.float32(1), 0
    with np.errstate(over="ignore"):
        while np.isfinite(c := c * np.float32(1.5)):
            first += 1
    (origin,) = (s for s in births(builder) if s.op == "mul")
    assert origin.iteration == (first,)
    neighbours = [s.iteration for s in builder.sites if s.op == "mul"]
    assert {(first - 1,), (first,), (first + 1,)} <= set(neighbours)
    assert not np.isfinite(recording.outs[0]).any()


def test_healthy_stretches_around_a_fault_stay_merged() -> None:
    builder, _ = recorded(growing(1.5), jnp.ones(4))
    products = [s for s in builder.sites if s.op == "mul"]
    assert len(products) < 10
    total = sum(builder.summaries[s.index].n for s in products)
    assert total == 4 * 3000


def test_while_loop_of_unknown_length_is_found_as_well() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(
            lambda s: s[0] < 5000, lambda s: (s[0] + 1, s[1] * 1.1), (0, x)
        )[1]

    builder, recording = recorded(f, jnp.float32(1))
    wanted = int(np.floor(np.log(float(np.finfo(np.float32).max)) / np.log(1.1)))
    origin = next(s for s in births(builder) if s.op == "mul")
    assert abs(origin.iteration[0] - wanted) <= 1
    assert np.isinf(recording.outs[0])


def test_second_run_needs_no_compilation(caplog: Any) -> None:
    f = jax.jit(growing(1.5))
    recorded(f, jnp.ones(4))
    with jax.log_compiles(), caplog.at_level("WARNING"):
        recorded(f, jnp.ones(4))
    assert "Finished XLA compilation" not in caplog.text


def test_branch_that_is_never_taken_leaves_no_site() -> None:
    def body(c: Any, _: Any) -> Any:
        return lax.cond(c[0] > 1e9, jnp.log, lambda v: v + 1.0, c), None

    builder, _ = recorded(
        lambda x: lax.scan(body, x, None, length=2000)[0], jnp.zeros(2)
    )
    ops = {s.op for s in builder.sites}
    assert "log" not in ops
    assert "add" in ops


def test_loop_inside_a_long_loop_is_merged_with_it() -> None:
    def body(c: Any, _: Any) -> Any:
        return lax.scan(lambda d, _: (d * 1.001, None), c, None, length=50)[0], None

    builder, _ = recorded(lambda x: lax.scan(body, x, None, length=100)[0], jnp.ones(2))
    (product,) = (s for s in builder.sites if s.op == "mul")
    assert builder.summaries[product.index].n == 2 * 100 * 50
