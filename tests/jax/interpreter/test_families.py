# SPDX-License-Identifier: Apache-2.0
"""What is said of a primitive is what it does."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import primitives

from numcheck_jax.families import effect_of, family_of

X = jnp.array([[3.0, -1.0, 2.5], [0.5, 7.0, -4.0]])
FLAGS = X > 0

OPERATORS = {
    "reshape": lambda x: x.reshape(6),
    "transpose": lambda x: x.T,
    "broadcast": lambda x: jnp.broadcast_to(x, (4, 2, 3)),
    "slice": lambda x: lax.slice(x, (0, 1), (2, 3)),
    "dynamic slice": lambda x: lax.dynamic_slice(x, (0, 1), (2, 2)),
    "concatenate": lambda x: jnp.concatenate([x, x]),
    "reverse": lambda x: lax.rev(x, (0,)),
    "sort": lax.sort,
    "select": lambda x: lax.select(FLAGS, x, x),
    "maximum": lambda x: lax.max(x, x),
    "reduce_max": lambda x: lax.reduce_max(x, (0,)),
    "cummax": lax.cummax,
    "clip by index": lambda x: x.at[jnp.array([0, 9])].get(mode="clip"),
    "update": lambda x: lax.dynamic_update_slice(x, x[:1], (1, 0)),
    "barrier": lax.optimization_barrier,
    "top_k": lambda x: lax.top_k(x, 2)[0],
}
RISKY = """
    add sub mul div pow integer_pow square sqrt rsqrt exp exp2 expm1 log log1p acos
    atanh erf_inv dot_general conv_general_dilated reduce_sum reduce_prod cumsum
    cholesky svd eigh triangular_solve convert_element_type gather scatter_add
    logistic tanh cumlogsumexp reduce_window_sum psum scan
"""
ARITHMETIC = {
    "add": lambda x: x + x,
    "exp": jnp.exp,
    "log": jnp.log,
    "matmul": lambda x: x @ x.T,
    "sum": lambda x: x.sum(),
    "cumsum": lambda x: jnp.cumsum(x, 0),
    "fill": lambda x: x.at[jnp.array([0, 9])].get(mode="fill"),
    "mean": lambda x: x.mean(),
}


def effects(f: Any) -> set[str]:
    eqns = jax.make_jaxpr(f)(X).eqns
    floats = [e for e in eqns if e.outvars[0].aval.dtype == jnp.float32]
    return {effect_of(e, reads_arrays=True) for e in floats}


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_said_to_move_makes_no_new_value(name: str) -> None:
    f = OPERATORS[name]
    assert effects(f) == {"move"}
    assert set(np.asarray(f(X)).ravel()) <= set(np.asarray(X).ravel())


@pytest.mark.parametrize("name", ARITHMETIC)
def test_operator_that_makes_new_values_is_said_to_compute(name: str) -> None:
    f = ARITHMETIC[name]
    assert "compute" in effects(f)
    values = np.asarray(f(X)).ravel()
    assert not set(values.tolist()) <= set(np.asarray(X).ravel().tolist())


def test_cast_is_a_cast_and_a_broadcast_constant_a_fill() -> None:
    (cast,) = jax.make_jaxpr(lambda x: x.astype(jnp.float16))(X).eqns
    assert effect_of(cast, reads_arrays=True) == "cast"
    (fill,) = jax.make_jaxpr(lambda: lax.full((3,), jnp.inf))().eqns
    assert effect_of(fill, reads_arrays=False) == "fill"


def test_primitives_that_can_overflow_or_leave_their_domain_have_a_family() -> None:
    known = {name.removesuffix("_p") for name in dir(primitives) if name[-2:] == "_p"}
    assert set(RISKY.split()) <= known
    assert [name for name in RISKY.split() if not family_of(name)] == []
