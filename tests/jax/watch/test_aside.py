# SPDX-License-Identifier: Apache-2.0
"""NaN in what a step returns beside its loss and gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import numcheck_jax
from numcheck.monitor import NumcheckWarning

X = jnp.arange(6.0).reshape(3, 2)


def trained(aux: Any) -> Any:
    """Return a step that hands back what `aux` makes of the model's output."""

    def loss(w: Any, x: Any, group: Any) -> Any:
        out = x @ w
        return jnp.mean(jnp.where(group >= 0, out, 0.0) ** 2), aux(out, group)

    return jax.jit(jax.value_and_grad(loss, has_aux=True))


def watched(step: Any, groups: list[list[int]]) -> Any:
    found = numcheck_jax.instrument(step, on_error="record")
    for group in groups:
        found(jnp.ones(2), X, jnp.asarray(group))
    found.numcheck.close()
    return found.numcheck


def by_group(out: Any, group: Any) -> Any:
    member = jax.nn.one_hot(group, 3)
    return (out[:, None] * member).sum(0) / member.sum(0)


def test_metric_of_no_examples_is_a_warning_about_the_batch_told_once() -> None:
    monitor = watched(trained(by_group), [[0, 1, 2], [1, 1, 2], [1, 1, 2]])
    (found,) = (f for f in monitor.findings if f.severity != "note")
    assert (found.severity, found.site.op, found.phase) == ("warning", "div", "forward")
    assert (found.step, found.cause and found.cause.cls) == (1, "data")
    assert "lost_aside" in [e.key for e in found.evidence]
    assert monitor.incidents[-1].step == 1  # the place is not looked at again


def test_nan_that_the_loss_masks_may_be_returned() -> None:
    def padded(w: Any, x: Any, group: Any) -> Any:
        out = x @ w
        scores = jnp.where(group[:, None] >= 0, out[None], -jnp.inf)
        weights = jax.nn.softmax(scores, axis=-1)
        loss = jnp.mean(jnp.where(group >= 0, weights[:, 0], 0.0))
        return jax.lax.stop_gradient(loss), weights

    def step(w: Any, x: Any, group: Any) -> Any:
        loss, weights = padded(w, x, group)
        return w * 0.9, loss, weights

    monitor = watched(jax.jit(step), [[0, 1, -1]])
    assert [f for f in monitor.findings if f.severity != "note"] == []


def test_metric_that_is_infinite_may_be_meant() -> None:
    def worst(out: Any, group: Any) -> Any:
        return jnp.exp(out * 100).max() + group.sum()

    monitor = watched(trained(worst), [[0, 1, 1]])
    assert [f for f in monitor.findings if f.severity != "note"] == []


def test_a_step_with_such_a_metric_keeps_its_update_under_skip() -> None:
    def step(w: Any, group: Any) -> Any:
        loss, grad = jax.value_and_grad(lambda w: jnp.sum((X @ w) ** 2))(w)
        return w - 1e-3 * grad, loss, by_group(X @ w, group)

    plain = jax.jit(step)
    found = numcheck_jax.instrument(plain, on_error="skip")
    w = jnp.ones(2)
    absent = jnp.array([1, 1, 1])
    with pytest.warns(NumcheckWarning, match="N304"):
        assert jnp.array_equal(found(w, absent)[0], plain(w, absent)[0])
    found.numcheck.close()
    assert [f.severity for f in found.numcheck.findings] == ["warning"]
