# SPDX-License-Identifier: Apache-2.0
"""A selection between values that both hold NaN or Inf."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import numcheck_jax


def filled(w: Any, x: Any) -> Any:
    """Fill gaps with the mean of their column, which may have no member."""
    return jnp.sum(jnp.where(jnp.isnan(x), jnp.nanmean(x, 0), x) * w)


def chosen(w: Any, x: Any) -> Any:
    """Take a logarithm where that is defined, and the root where it is not."""
    return jnp.sum(jnp.where(x > 0, jnp.log(x), jnp.sqrt(x)) * w)


def switched(w: Any, x: Any) -> Any:
    """Select between three, of which two are not finite."""
    cases = (jnp.log(x), x * w, jnp.sqrt(x))
    return jnp.sum(jax.lax.select_n(jnp.array([1, 2, 2], jnp.int32), *cases))


@pytest.mark.parametrize(
    ("function", "x", "ops"),
    [
        (filled, [[jnp.nan, 1.0], [jnp.nan, 2.0]], {"div"}),
        (chosen, [1.0, -1.0, 2.0], {"sqrt"}),
        (switched, [-1.0, -1.0, 2.0], {"sqrt"}),
    ],
)
def test_only_the_case_that_was_taken_is_the_origin(
    function: Any, x: Any, ops: set[str]
) -> None:
    step = numcheck_jax.instrument(jax.jit(function), on_error="record")
    x = jnp.asarray(x)
    step(jnp.ones(x.shape[-1]), x)
    step.numcheck.close()
    errors = [f for f in step.numcheck.findings if f.severity == "error"]
    assert {f.site.op for f in errors} == ops
