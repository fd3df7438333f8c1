# SPDX-License-Identifier: Apache-2.0
"""A program freed of its layout computes the same, and keeps its lines."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from numcheck.diagnose.laboratory import CannotRunError
from numcheck_jax.unplaced import unplaced
from tests.jax.interpreter.recording import births, replayed

MESH = Mesh(np.array(jax.devices()[:4]), ("d",))
ROWS = NamedSharding(MESH, PartitionSpec("d"))
X = jnp.ones((8, 4)).at[3, 1].set(0.0)


def laid_out(x: Any) -> Any:
    @jax.jit
    def inner(v: Any) -> Any:
        with jax.named_scope("block"):
            return jnp.log(lax.with_sharding_constraint(v, ROWS))

    return inner(2.0 * x).sum()


def test_program_without_its_layout_computes_the_same() -> None:
    closed = jax.make_jaxpr(jax.jit(jax.grad(laid_out), in_shardings=ROWS))(X + 1)
    (gradient,) = jax.core.eval_jaxpr(unplaced(closed).jaxpr, [], X + 1)
    np.testing.assert_allclose(gradient, 1 / (X + 1))
    assert "sharding_constraint" not in str(unplaced(closed))


def test_operators_keep_their_scope_line_and_phase() -> None:
    closed = unplaced(jax.make_jaxpr(jax.value_and_grad(laid_out))(X))
    builder, _ = replayed(closed, [X])
    origin, *_ = births(builder)
    assert (origin.op, origin.scope, origin.phase) == ("log", "block", "forward")
    assert origin.source is not None
    assert "jnp.log" in origin.source.text
    assert {s.phase for s in builder.sites} >= {"forward", "backward"}


def test_program_without_any_layout_is_left_as_it_is() -> None:
    closed = jax.make_jaxpr(jnp.sin)(X)
    assert unplaced(closed) is closed


def test_layout_inside_a_loop_is_refused() -> None:
    def loop(x: Any) -> Any:
        return lax.scan(
            lambda c, _: (lax.with_sharding_constraint(c, ROWS), None), x, length=2
        )[0]

    with pytest.raises(CannotRunError, match=r"refusal\.laid_out"):
        unplaced(jax.make_jaxpr(loop)(X))
