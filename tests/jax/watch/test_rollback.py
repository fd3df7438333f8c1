# SPDX-License-Identifier: Apache-2.0
"""Steps that go back, and updates that are dropped."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcheck_jax
from numcheck.errors import NonFiniteError

GOOD = jnp.array([1.0, 2.0, 4.0])
BAD = jnp.array([1.0, 0.0, 4.0])


def update(state: Any, x: Any) -> Any:
    w, n = state
    loss, gradient = jax.value_and_grad(lambda w: jnp.sum(w * jnp.log(x)))(w)
    return (w - 0.1 * gradient, n + 1), loss


def fresh() -> Any:
    return GOOD + 0, jnp.int32(0)


def test_rollback_keeps_donation_and_makes_the_step_replayable() -> None:
    step = numcheck_jax.instrument(
        jax.jit(update, donate_argnums=0), audit_first=False, rollback=True
    )
    state = fresh()
    after, _ = step(state, GOOD)
    assert state[0].is_deleted()
    step(after, BAD)
    with pytest.raises(NonFiniteError) as caught:
        step.numcheck.close()
    finding = caught.value.finding
    assert (finding.site.op, finding.step, finding.reproduced) == ("log", 1, True)


def test_rollback_hands_back_the_old_state_of_a_step_that_broke() -> None:
    step = numcheck_jax.instrument(
        jax.jit(update, donate_argnums=0),
        audit_first=False,
        rollback=True,
        on_error="record",
    )
    state, _ = step(fresh(), GOOD)
    before = jax.tree.map(np.asarray, state)
    state, loss = step(state, BAD)
    assert np.isneginf(loss)
    np.testing.assert_array_equal(state[0], before[0])
    assert int(state[1]) == int(before[1])
    healthy, _ = step(state, GOOD)
    assert int(healthy[1]) == int(before[1]) + 1
    assert not np.array_equal(healthy[0], before[0])


def test_rollback_of_a_function_that_cannot_have_it_says_so() -> None:
    step = numcheck_jax.instrument(update, audit_first=False, rollback=True)
    step(fresh(), GOOD)
    notes = [str(e.value) for e in step.numcheck.events if e.name == "note"]
    assert len(notes) == 1
    assert "jitted" in notes[0]


@pytest.mark.parametrize("wrap", [jax.jit, lambda f: f], ids=["jit", "eager"])
def test_skip_drops_the_update_and_goes_on(wrap: Any) -> None:
    step = numcheck_jax.instrument(wrap(update), audit_first=False, on_error="skip")
    state = fresh()
    with pytest.warns(UserWarning, match="logarithm"):
        after, loss = step(state, BAD)
    assert np.isneginf(loss)
    assert after[0] is state[0]
    assert after[1] is state[1]
    after, _ = step(after, GOOD)
    assert int(after[1]) == 1
    skipped = [(e.name, e.step) for e in step.numcheck.events if e.name == "skipped"]
    assert skipped == [("skipped", 0)]


def test_skip_makes_a_broken_gradient_zero() -> None:
    gradient = jax.jit(jax.value_and_grad(lambda w, x: jnp.sum(jnp.sqrt(w * x))))
    step = numcheck_jax.instrument(gradient, audit_first=False, on_error="skip")
    with pytest.warns(UserWarning, match="square root|derivative"):
        _, found = step(GOOD, BAD)
    assert found.tolist() == [0.0, 0.0, 0.0]
