# SPDX-License-Identifier: Apache-2.0
"""What the recorder says of each value: operands, constants, places, phases."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

from numcheck.diagnose.laboratory import CannotRunError
from tests.jax.interpreter.recording import births, recorded

if TYPE_CHECKING:
    from numcheck.record.site import Site
    from numcheck.record.trace import TraceBuilder

X = jnp.array([3.0, 1.0, 2.0])


def sites(builder: TraceBuilder, op: str) -> list[Site]:
    return [site for site in builder.sites if site.op == op]


def only(builder: TraceBuilder, op: str) -> Site:
    (site,) = sites(builder, op)
    return site


def test_parents_stand_in_operand_order_and_twice_when_read_twice() -> None:
    def f(x: Any, y: Any) -> Any:
        difference = y - x
        return lax.mul(difference, difference)

    builder, _ = recorded(f, X, X + 1)
    difference = only(builder, "sub")
    assert difference.parents == (1, 0)
    assert only(builder, "mul").parents == (difference.index, difference.index)


def test_constants_written_in_the_program_are_told_apart() -> None:
    def f(x: Any) -> Any:
        return jnp.maximum(jnp.where(x > 1, x, -jnp.inf) + 0.5, jnp.nan)

    builder, _ = recorded(f, X)
    fills = [s for s in builder.sites if "-inf" in s.literals]
    assert fills
    assert {s.effect for s in fills} <= {"cast", "fill"}
    assert not any(s.parents for s in fills)
    assert ("operand1", 0.5) in only(builder, "add").detail
    assert "nan" in only(builder, "max").literals


def test_array_closed_over_is_a_source_of_its_own() -> None:
    table = jnp.arange(100.0)
    builder, _ = recorded(lambda x: x + table[:3], X)
    constants = [s for s in builder.sites if s.role == "constant"]
    assert [s.kind for s in constants] == ["source"]
    assert builder.summaries[constants[0].index].amax == 99


def test_each_output_knows_the_site_of_its_value() -> None:
    builder, recording = recorded(lambda x: (jnp.exp(x), x, x > 1, 2.0), X)
    exp, same, flag, number = recording.sites
    assert exp == only(builder, "exp").index
    assert same == 0
    assert flag is None
    assert number is None or builder.sites[number].shape == ()


def test_float16_constant_that_vanished_is_seen_as_zero() -> None:
    builder, _ = recorded(lambda x: x + jnp.float16(1e-9), X.astype(jnp.float16))
    assert only(builder, "add").detail == (("operand1", 0.0),)


def test_gather_outside_of_the_array_is_a_computation() -> None:
    builder, _ = recorded(lambda x, i: x.at[i].get(mode="fill"), X, jnp.array([0, 7]))
    (origin,) = births(builder)
    assert (origin.op, origin.effect, origin.parents[0]) == ("gather", "compute", 0)


def test_sums_and_signed_extremes_are_measured_too() -> None:
    builder, _ = recorded(lambda x: -x, X)
    held = builder.summaries[only(builder, "neg").index]
    assert (held.low, held.high, held.total, held.total_sq) == (-3, -1, -6, 14)


def test_derivative_coefficients_belong_to_the_backward_pass() -> None:
    def loss(w: Any) -> Any:
        return jnp.sum(jnp.where(w > 0, jnp.sqrt(w), 0.0))

    builder, _ = recorded(jax.value_and_grad(loss), X.at[1].set(0.0))
    assert only(builder, "sqrt").phase == "forward"
    assert only(builder, "div").phase == "backward"
    assert only(builder, "reduce_sum").phase == "forward"


def test_update_of_the_parameters_is_the_optimizers() -> None:
    optimizer = optax.adam(optax.linear_schedule(1e-3, 0.0, 100))

    def step(w: Any, state: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean(jnp.sin(w) ** 2))(w)
        updates, state = optimizer.update(gradient, state, w)
        return optax.apply_updates(w, updates), state, loss

    builder, _ = recorded(step, X, optimizer.init(X))
    phases = {(s.op, s.phase) for s in builder.sites}
    assert ("sin", "forward") in phases
    assert ("cos", "backward") in phases
    assert {s.phase for s in sites(builder, "sqrt")} == {"optimizer"}
    # Adam's bias correction and the schedule depend on the step count alone.
    assert {s.phase for s in sites(builder, "pow")} == {"optimizer"}


def test_loss_named_by_the_caller_decides_what_is_forward() -> None:
    def f(w: Any) -> Any:
        value, back = jax.vjp(lambda w: jnp.exp(w) * w, w)
        return value, back(jnp.ones_like(w))[0], jnp.tanh(w).sum()

    builder, _ = recorded(f, X, loss_outputs=[0])
    assert {s.phase for s in sites(builder, "exp")} == {"forward"}


def test_program_without_derivatives_is_all_forward() -> None:
    builder, _ = recorded(lambda x: (jnp.exp(x), jnp.log(x)), X)
    assert {s.phase for s in builder.sites if s.kind == "operator"} == {"forward"}


def test_early_stop_ends_at_the_first_birth() -> None:
    def f(x: Any) -> Any:
        return jnp.exp(jnp.log(x - 1) + jnp.inf)

    builder, recording = recorded(f, X, early_stop=True)
    assert recording.outs == []
    assert builder.sites[-1].op == "log"


def test_scan_outputs_descend_from_every_iteration() -> None:
    builder, recording = recorded(
        lambda x: lax.scan(lambda c, v: (c + v, c * v), 0.0, x)[1], X
    )
    place = recording.sites[0]
    assert place is not None
    stack = builder.sites[place]
    assert (stack.op, stack.effect, stack.family) == ("scan", "move", "loop")
    parents = [builder.sites[p] for p in stack.parents]
    assert [(p.op, p.iteration) for p in parents] == [
        ("mul", (0,)), ("mul", (1,)), ("mul", (2,)),
    ]  # fmt: skip


def test_finished_lanes_of_a_batched_loop_do_not_alarm() -> None:
    def one(v: Any) -> Any:
        return lax.while_loop(lambda c: c < 100.0, lambda c: c * 1e30, v)

    builder, recording = recorded(jax.vmap(one), jnp.array([1e9, 1.0]))
    assert np.isfinite(recording.outs[0]).all()
    kept = [s for s in builder.sites if s.op == "select_n"]
    assert all(builder.summaries[s.index].is_finite for s in kept)


def test_prints_are_not_repeated_and_callbacks_refused(capfd: Any) -> None:
    def printing(x: Any) -> Any:
        jax.debug.print("again {}", x.sum())
        jax.debug.callback(lambda v: sys.stdout.write(f"again {v}"), x)
        return jnp.log(x)

    recorded(printing, X)
    jax.effects_barrier()
    assert "again" not in capfd.readouterr().out

    def reading(x: Any) -> Any:
        return jax.experimental.io_callback(lambda v: v, X, x)

    with pytest.raises(CannotRunError, match=r"callback_at .*\"op\": \"io_callback\""):
        recorded(reading, X)


def test_reference_handed_in_is_left_as_it_was() -> None:
    ref = jax.new_ref(X)

    def f(ref: Any) -> Any:
        ref[...] = ref[...] * 2
        return ref[...].sum()

    _, recording = recorded(f, ref)
    assert recording.outs[0] == 12
    assert np.array_equal(ref[...], X)


def test_departure_is_the_relative_error_against_float32() -> None:
    x = np.linspace(0.1, 3, 50).astype(np.float16)
    builder, recording = recorded(
        lambda x: jnp.exp(x) * jnp.float16(3), jnp.asarray(x), shadow="float32"
    )
    product = only(builder, "mul").index
    value = np.asarray(recording.outs[0], np.float64)
    wide = np.exp(x.astype(np.float32)) * np.float32(3)
    wanted = np.linalg.norm(value - wide) / np.linalg.norm(wide.astype(np.float64))
    assert math.isclose(recording.departures[product], wanted, rel_tol=1e-3)
    assert recording.departures[0] == 0.0


def test_departure_is_infinite_where_only_one_is_finite() -> None:
    builder, recording = recorded(
        lambda x: x * x, jnp.array([300.0], jnp.float16), shadow="float32"
    )
    product = builder.sites[-1].index
    assert recording.departures[product] == math.inf


def test_float32_program_is_its_own_shadow() -> None:
    _, recording = recorded(lambda x: jnp.exp(x).sum(), X, shadow="float32")
    assert set(recording.departures.values()) == {0.0}


def test_random_and_integer_decisions_are_shared_with_the_shadow() -> None:
    def f(x: Any, key: Any) -> Any:
        kept = jax.random.bernoulli(key, 0.5, x.shape)
        noise = jax.random.normal(key, x.shape, x.dtype)
        return jnp.where(kept, x, 0) + noise * 0 + x[jnp.argmax(x)]

    _, recording = recorded(
        f, X.astype(jnp.bfloat16), jax.random.key(0), shadow="float32"
    )
    assert max(recording.departures.values()) < 0.02


@pytest.mark.parametrize("length", [20, 3000])
def test_counter_that_stands_still_departs_in_short_and_long_loops(length: int) -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda n, _: (n + jnp.bfloat16(1), None), x, None, length)[0]

    start = jnp.bfloat16(250)
    builder, recording = recorded(f, start, shadow="float32")
    adds = [s.index for s in builder.sites if s.op == "add"]
    worst = max(recording.departures[i] for i in adds)
    assert math.isclose(worst, 1 - 256 / (250 + length), rel_tol=0.01)
