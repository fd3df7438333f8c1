# SPDX-License-Identifier: Apache-2.0
"""States in few bits that stop moving in the middle of a run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcheck_jax

BATCH = jnp.ones(4)


def first_lost(start: float, dtype: Any, by: float) -> int:
    """Return the step at which adding in a format first changes nothing, by NumPy."""
    held, step = np.asarray(start, dtype), 0
    while (new := (held + np.asarray(by, dtype)).astype(dtype)) != held:
        held, step = new, step + 1
    return step


@pytest.mark.parametrize(
    ("dtype", "start", "by"), [(jnp.bfloat16, 248.0, 1.0), (jnp.float16, 8176.0, 4.0)]
)
def test_counter_is_told_at_the_step_at_which_it_sticks(
    dtype: Any, start: float, by: float
) -> None:
    @jax.jit
    def step(state: Any, x: Any) -> Any:
        w, seen = state
        return (w * 0.9, seen + jnp.asarray(by, dtype)), (w * x).sum()

    watched = numcheck_jax.instrument(step, on_error="record")
    state = (BATCH, jnp.asarray(start, dtype))
    for _ in range(12):
        state, _ = watched(state, BATCH)
    watched.numcheck.close()
    told = [
        (f.id, f.site.op, f.step)
        for f in watched.numcheck.findings
        if f.severity == "error"
    ]
    assert told == [("N401", "add", first_lost(start, dtype, by))]


def test_state_that_has_arrived_is_looked_at_and_not_reported() -> None:
    @jax.jit
    def step(state: Any, x: Any) -> Any:
        w, level = state
        limit = jnp.asarray(3, jnp.bfloat16)
        return (w * 0.9, jnp.minimum(level + 1, limit)), (w * x).sum()

    watched = numcheck_jax.instrument(step, on_error="record")
    state = (BATCH, jnp.zeros((), jnp.bfloat16))
    for _ in range(8):
        state, _ = watched(state, BATCH)
    watched.numcheck.close()
    audited = {i.step for i in watched.numcheck.incidents}
    assert audited == {0, 3}
    assert [f for f in watched.numcheck.findings if f.severity != "note"] == []
