# SPDX-License-Identifier: Apache-2.0
"""What each value of a step is to the user, and what it is called."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from numcheck_jax.capture import capture
from numcheck_jax.naming import argument_names
from numcheck_jax.results import Key
from numcheck_jax.roles import assign
from numcheck_jax.tracing import program_of

W = jnp.ones(3)
X = jnp.ones(3)
TX = optax.adam(1e-2)


def loss(params: Any, x: Any) -> Any:
    return jnp.sum((params["w"] * x) ** 2) * params["b"]


def sgd(state: Any, batch: Any) -> Any:
    params, inner = state
    value, grads = jax.value_and_grad(loss)(params, batch["x"])
    updates, inner = TX.update(grads, inner, params)
    return (optax.apply_updates(params, updates), inner), {"loss": value}


PARAMS = {"w": W, "b": jnp.float32(1.0)}
STATE = (PARAMS, TX.init(PARAMS))


def named(function: Any, *args: Any, **kwargs: Any) -> tuple[list[str], list[str]]:
    call = capture(function, args, kwargs, 0)
    program = program_of(call)
    roles = assign(call, program)
    sources = [f"{role}:{call.names[i]}" for i, role in roles.sources.items()]
    kept = [
        roles.name(key, call, program.shape.name(key, call)) for key in program.outputs
    ]
    return sources, kept


def test_value_and_grad_gives_a_loss_and_gradients_of_the_first_argument() -> None:
    sources, kept = named(jax.jit(jax.value_and_grad(loss)), PARAMS, X)
    assert kept == ["loss", "gradient:params['b']", "gradient:params['w']"]
    assert sources == ["parameter:params['b']", "parameter:params['w']", "input:x"]


def test_gradients_of_several_arguments_are_told_apart() -> None:
    function = jax.value_and_grad(lambda a, b: jnp.sum(a * jnp.sin(b)), argnums=(0, 1))
    assert named(function, W, X)[1] == ["loss", "gradient:a", "gradient:b"]


def test_train_step_updates_parameters_and_optimizer_state() -> None:
    sources, kept = named(jax.jit(sgd), STATE, {"x": X})
    assert kept[:2] == ["parameter:state[0]['b']", "parameter:state[0]['w']"]
    assert kept[-1] == "loss"
    assert "state:state[1][0].mu['w']" in kept
    assert sources[-1] == "input:batch['x']"
    assert "state:state[1][0].nu['b']" in sources


def test_gradients_returned_in_the_place_of_the_parameters_are_gradients() -> None:
    def swapped(params: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x)
        return grads, value

    assert named(swapped, PARAMS, X)[1] == [
        "gradient:params['b']",
        "gradient:params['w']",
        "loss",
    ]


def test_clipped_gradient_is_a_gradient_and_no_new_parameter() -> None:
    def clipped(w: Any, x: Any) -> Any:
        value, grad = jax.value_and_grad(lambda w: jnp.sum(w * x))(w)
        return value, grad / jnp.maximum(1.0, jnp.linalg.norm(grad))

    assert named(jax.jit(clipped), W, X)[1] == ["loss", "gradient:w"]


def test_scalar_called_loss_is_the_loss_among_other_scalars() -> None:
    def metrics(w: Any, x: Any) -> Any:
        return {"accuracy": x.mean(), "train_loss": jnp.sum(w * x)}

    assert named(metrics, W, X)[1] == ["output:['accuracy']", "loss"]


def test_lone_scalar_is_a_loss_even_where_an_argument_looks_like_it() -> None:
    assert named(lambda theta: theta * 2.0, jnp.float32(1.0))[1] == ["loss"]


def test_two_copies_of_a_state_keep_names_of_their_own() -> None:
    def averaged(w: Any, x: Any) -> Any:
        return {"w": w + x, "mean": 0.5 * w + 0.5 * x}

    assert sorted(named(averaged, W, X)[1]) == [
        "parameter:['mean']",
        "parameter:['w']",
    ]


def test_labels_are_targets_and_written_as_inputs_elsewhere() -> None:
    call = capture(lambda w, labels: w * labels, (W, X), {}, 0)
    roles = assign(call, program_of(call))
    assert list(roles.sources.values()) == ["parameter", "target"]


def test_user_s_loss_overrides_what_was_found() -> None:
    call = capture(lambda w, x: (w.sum(), x.sum()), (W, X), {}, 0)
    roles = assign(call, program_of(call), Key("out", 1))
    assert list(roles.kept.values()) == ["output", "loss"]


@pytest.mark.parametrize(
    ("function", "count", "wanted"),
    [
        (lambda a, b: a, 2, ("a", "b")),
        (lambda a, /, b=1, *rest: a, 4, ("a", "b", "rest[0]", "rest[1]")),
        (jax.jit(lambda w, x: w), 2, ("w", "x")),
        (max, 2, ("args[0]", "args[1]")),
    ],
    ids=["plain", "variadic", "jit", "builtin"],
)
def test_arguments_are_called_as_in_the_signature(
    function: Any, count: int, wanted: tuple[str, ...]
) -> None:
    assert argument_names(function, count) == wanted
