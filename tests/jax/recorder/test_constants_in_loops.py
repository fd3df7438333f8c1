# SPDX-License-Identifier: Apache-2.0
"""Loops that hand on constants written in the program."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import numcheck_jax
from numcheck.errors import NonFiniteError

TURN = jnp.eye(4) * 1.6


def loss_of(w: Any, xs: Any) -> Any:
    def cell(h: Any, x: Any) -> Any:
        h = jnp.tanh(0 * h) + blind(h) + x
        return h, None

    h, _ = jax.lax.scan(cell, w, xs)
    return jnp.sum(h)


def blind(h: Any) -> Any:
    """Return zeros whose gradient is that of a growing state."""
    turned = h @ TURN
    return turned - jax.lax.stop_gradient(turned) + jax.lax.stop_gradient(0.0) * 0


def test_gradient_that_explodes_through_a_long_scan_is_named() -> None:
    step = numcheck_jax.instrument(jax.jit(jax.value_and_grad(loss_of)), lag=0)
    with pytest.raises(NonFiniteError) as caught:
        step(jnp.full(4, 0.1), jnp.full((300, 4), 0.01))
    finding = caught.value.finding
    assert (finding.site.op, finding.phase) == ("dot_general", "backward")
    assert [e for e in step.numcheck.events if e.name in ("fault", "note")] == []
    assert not any(e.key == "not_run" and "replay" in str(e) for e in finding.evidence)
