# SPDX-License-Identifier: Apache-2.0
"""A lifted program computes what the user would have got in the wider dtype."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from numcheck_jax.lift import lift
from tests.jax.interpreter.recording import traced

X = jnp.linspace(0.1, 4.0, 12).reshape(3, 4)
W = jnp.cos(jnp.arange(16.0)).reshape(4, 4)


def network(w: Any, x: Any) -> Any:
    return jnp.sum(jax.nn.softmax(jnp.tanh(x @ w)) ** 2)


def scanned(w: Any, x: Any) -> Any:
    return lax.scan(lambda c, v: (jnp.sin(c @ w + v), c.max()), x[0], x)[0].sum()


def looped(w: Any, x: Any) -> Any:
    return lax.while_loop(
        lambda s: s.max() < 50, lambda s: s * 2 + jnp.abs(s @ w), x
    ).sum()


def branched(w: Any, x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda v: v @ w, lambda v: v, x).sum()


def scattered(w: Any, x: Any) -> Any:
    return w.at[jnp.array([0, 2, 0])].add(x).sum() + lax.reduce(
        w, np.array(0, w.dtype), lax.add, (0, 1)
    )


def remat(w: Any, x: Any) -> Any:
    return jnp.sum(jax.checkpoint(lambda v: jnp.sin(v @ w))(x))


def convolved(w: Any, x: Any) -> Any:
    return jnp.convolve(x.ravel(), w[0]).sum()


def solved(w: Any, x: Any) -> Any:
    return jnp.cumsum(x).max() + jnp.sort(x.ravel())[3] + jnp.prod(w[:, 0])


PROGRAMS = [
    network, scanned, looped, branched, scattered, remat, convolved, solved,
]  # fmt: skip


def narrow(dtype: Any) -> tuple[Any, Any]:
    return W.astype(dtype), X.astype(dtype)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16], ids=["half", "brain"])
@pytest.mark.parametrize("reverse", [False, True], ids=["value", "gradient"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_lifted_program_is_the_program_written_in_float32(
    f: Any, dtype: Any, reverse: bool, compiled: bool
) -> None:
    if reverse and f is looped:
        pytest.skip("a while loop has no reverse derivative")
    g = jax.value_and_grad(f) if reverse else f
    args = narrow(dtype)
    closed, leaves = traced(g, *args)
    run = lift(closed, "float32")
    outs = (jax.jit(run) if compiled else run)(*leaves)
    wanted = jax.tree.leaves(g(*(a.astype(jnp.float32) for a in args)))
    assert len(outs) == len(wanted)
    for got, value in zip(outs, wanted, strict=True):
        assert got.dtype == jnp.float32
        np.testing.assert_allclose(got, value, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_lift_to_float64_gains_precision(f: Any) -> None:
    closed, leaves = traced(f, W, X)
    with jax.enable_x64(True):
        (got,) = lift(closed, "float64")(*leaves)
        assert got.dtype == np.float64
        wanted = f(*(jnp.asarray(np.asarray(a), np.float64) for a in (W, X)))
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_declared_casts_and_accumulators_are_lifted() -> None:
    def f(x: Any) -> Any:
        y = x.astype(jnp.float16) * 1000
        return lax.dot(y, y.T, preferred_element_type=jnp.float16).astype(jnp.float32)

    closed, leaves = traced(f, X)
    (got,) = lift(closed, "float32")(*leaves)
    assert not np.isfinite(f(X)).all()
    np.testing.assert_allclose(got, (X * 1000) @ (X * 1000).T, rtol=1e-5)


def test_emulated_rounding_is_lifted_as_well() -> None:
    def f(x: Any) -> Any:
        return lax.reduce_precision(x, exponent_bits=5, mantissa_bits=10) + x

    half = X.astype(jnp.float16)
    closed, leaves = traced(f, half)
    (got,) = lift(closed, "float32")(*leaves)
    np.testing.assert_array_equal(got, 2 * half.astype(jnp.float32))


def test_bits_are_read_in_the_declared_format() -> None:
    def f(x: Any) -> Any:
        return lax.bitcast_convert_type(x, jnp.uint16)

    closed, leaves = traced(f, X.astype(jnp.float16))
    (got,) = lift(closed, "float32")(*leaves)
    np.testing.assert_array_equal(got, f(X.astype(jnp.float16)))


def test_overflow_of_a_format_goes_away_and_of_arithmetic_stays() -> None:
    def f(x: Any) -> Any:
        return x * x, jnp.log(x - x)

    closed, leaves = traced(f, jnp.array([300.0], jnp.float16))
    product, logarithm = lift(closed, "float32")(*leaves)
    assert product == 90_000
    assert logarithm == -np.inf


def test_same_keeps_even_a_half_precision_program_bit_for_bit() -> None:
    for f in PROGRAMS:
        args = narrow(jnp.bfloat16)
        closed, leaves = traced(f, *args)
        (got,) = jax.jit(lift(closed, "same"))(*leaves)
        assert np.asarray(got).tobytes() == np.asarray(jax.jit(f)(*args)).tobytes()
