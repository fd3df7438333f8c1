# SPDX-License-Identifier: Apache-2.0
"""A finding inside `vmap` names the lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcheck_jax
from numcheck.errors import NonFiniteError
from numcheck_jax.identity import lane_of
from tests.jax.interpreter.constructs import X, sharded

if TYPE_CHECKING:
    from collections.abc import Callable

GRID = jnp.ones((2, 3, 4)).at[1, 2, 0].set(0.0)


def logarithm(w: Any, x: Any) -> Any:
    return jnp.sum(w * jnp.log(x))


def root(w: Any, x: Any) -> Any:
    return jnp.sum(jnp.sqrt(w * x))


def finding_of(function: Any, transform: Callable[[Any], Any], *args: Any) -> Any:
    watched = numcheck_jax.instrument(function, audit_first=False)
    jax.block_until_ready(transform(watched)(*args))
    with pytest.raises(NonFiniteError) as caught:
        watched.numcheck.close()
    return caught.value


@pytest.mark.parametrize(
    ("transform", "lane"),
    [
        (lambda f: jax.vmap(f, (None, 0)), "1"),
        (lambda f: jax.jit(jax.vmap(f, (None, 0))), "1"),
        (lambda f: jax.vmap(f, (None, 1)), "2"),
        (lambda f: jax.vmap(jax.vmap(f, (None, 0)), (None, 0)), "1.2"),
        (lambda f: jax.vmap(jax.vmap(f, (None, 0)), (None, 1)), "2.1"),
        (lambda f: jax.vmap(jax.vmap(f, (0, None)), (None, 0)), "1.0"),
    ],
    ids=["one", "jit", "inner axis", "two", "swapped", "one argument each"],
)
def test_lane_of_a_forward_fault(transform: Any, lane: str) -> None:
    error = finding_of(logarithm, transform, jnp.ones((4,)), GRID)
    assert dict(error.finding.site.detail)["lane"] == lane
    assert error.finding.site.op == "log"
    assert error.finding.reproduced is True
    assert f"vmap lane {lane}" in str(error)


def test_lane_of_a_backward_fault() -> None:
    error = finding_of(
        root, lambda f: jax.jit(jax.vmap(jax.grad(f), (None, 0))), jnp.ones(4), GRID[1]
    )
    assert (error.finding.site.op, error.finding.phase) == ("div", "backward")
    assert dict(error.finding.site.detail)["lane"] == "2"


def test_lane_of_a_check_by_hand() -> None:
    def checked(x: Any) -> Any:
        return numcheck_jax.check_numerics(jnp.log(x), "scores").sum()

    with pytest.raises(NonFiniteError, match=r"vmap lane 2"):
        jax.vmap(checked)(GRID[1])


def test_without_vmap_there_is_no_lane() -> None:
    error = finding_of(logarithm, jax.jit, jnp.ones(4), GRID)
    assert "lane" not in dict(error.finding.site.detail)
    assert lane_of([np.array([np.nan])], [()]) is None


def test_shard_of_a_fault_stands_in_the_report() -> None:
    step = numcheck_jax.instrument(jax.jit(sharded(jnp.log)), lag=0)
    with pytest.raises(NonFiniteError, match=r"shard 2"):
        step(X)
