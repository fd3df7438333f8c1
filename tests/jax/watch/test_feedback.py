# SPDX-License-Identifier: Apache-2.0
"""Only what was fed back can have run away over the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import pytest

import numcheck_jax

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding

ONES = jnp.ones(4)


def the_error(step: Any) -> Finding:
    step.numcheck.close()
    found: Finding
    (found,) = [f for f in step.numcheck.findings if f.severity == "error"]
    return found


def reasons(found: Finding) -> list[Any]:
    return [e.fields.get("why") for e in found.evidence if e.key == "not_run"]


def test_unrelated_inputs_of_the_output_s_shape_did_not_run_away() -> None:
    step = numcheck_jax.instrument(jax.jit(lambda x: jnp.exp(x) * 2), on_error="record")
    for size in (1.0, 2.0, 3.0, 200.0):
        step(size * ONES)
    found = the_error(step)
    assert found.cause is not None
    assert found.cause.cls != "dynamics"
    assert "refusal.not_fed_back" in reasons(found)


@pytest.mark.parametrize("donated", [(), (0,)], ids=["kept", "donated"])
def test_output_that_was_fed_back_ran_away(donated: tuple[int, ...]) -> None:
    function = jax.jit(lambda s, x: jnp.exp(s) * x, donate_argnums=donated)
    step = numcheck_jax.instrument(function, rollback=bool(donated), on_error="record")
    state = 0 * ONES
    for _ in range(5):
        state = step(state, ONES)
    found = the_error(step)
    assert "refusal.not_fed_back" not in reasons(found)
    if not donated:
        assert found.cause is not None
        assert (found.cause.rule, found.cause.cls) == ("N751", "dynamics")


def test_input_moved_along_its_gradient_is_no_parameter_until_it_is_fed_back() -> None:
    @jax.jit
    def shifted(x: Any) -> Any:
        return x + jnp.sign(jax.grad(lambda v: jnp.exp(v).sum())(x)) * jnp.exp(x)

    step = numcheck_jax.instrument(shifted, on_error="record")
    for size in (1.0, 2.0, 3.0, 200.0):
        step(size * ONES)
    assert "refusal.not_fed_back" in reasons(the_error(step))


def test_parameters_updated_outside_of_the_step_are_compared_with_the_first() -> None:
    @jax.jit
    def gradient(v: Any, x: Any) -> Any:
        return jax.value_and_grad(lambda v: jnp.exp(v * x).sum())(v)

    step = numcheck_jax.instrument(gradient, on_error="record")
    weights = ONES
    for _ in range(6):
        _, found = step(weights, ONES)
        weights = weights + found
    shown = {e.key for e in the_error(step).evidence}
    assert "initial_parameters_healthy" in shown


def test_modules_changed_in_place_are_fed_back() -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Counter(nnx.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.total = nnx.Variable(0 * ONES)

    @nnx.jit  # type: ignore[untyped-decorator]
    def advance(counter: Any, x: Any) -> Any:
        counter.total[...] = jnp.exp(counter.total[...]) * x
        return x.sum()

    step = numcheck_jax.instrument(advance, on_error="record")
    counter = Counter()
    for _ in range(5):
        step(counter, ONES)
    assert "refusal.not_fed_back" not in reasons(the_error(step))


@pytest.mark.parametrize("bad", [jnp.inf, jnp.nan], ids=["inf", "nan"])
def test_bad_input_of_a_function_without_state_is_told(bad: float) -> None:
    step = numcheck_jax.instrument(jax.jit(lambda x: jnp.sin(x) * 2), on_error="record")
    for x in (ONES, ONES.at[1].set(bad)):
        step(x)
    assert the_error(step).severity == "error"


def test_state_that_was_infinite_from_the_start_is_no_harm() -> None:
    function = jax.jit(lambda least, x: jnp.minimum(least, x.at[0].set(jnp.inf)))
    step = numcheck_jax.instrument(function, on_error="record")
    least = jnp.inf * ONES
    for size in (3.0, 2.0, 1.0):
        least = step(least, size * ONES)
    step.numcheck.close()
    assert step.numcheck.findings == ()
