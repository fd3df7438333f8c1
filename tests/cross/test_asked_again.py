# SPDX-License-Identifier: Apache-2.0
"""The experiments on a failing step, run by both frameworks on the same programs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch import nn

import numcheck_jax
import numcheck_torch
from numcheck_jax.clipped import with_clipping

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.diagnose import Experiment, Finding

    Trained = Callable[..., tuple[tuple[Finding, ...], dict[str, Experiment]]]

ROWS, FEATURES = 6, 4


def batch(value: float, rows: dict[int, float] | None = None) -> np.ndarray[Any, Any]:
    x = np.full((ROWS, FEATURES), value, np.float32)
    for row, other in (rows or {}).items():
        x[row] = other
    return x


def told(monitor: Any) -> tuple[tuple[Finding, ...], dict[str, Experiment]]:
    ran = [dict(incident.experiments) for incident in monitor.incidents[-1:]]
    return monitor.findings, ran[0] if ran else {}


def in_torch(
    x: np.ndarray[Any, Any], dtype: str, scale: float = 1.0, **options: Any
) -> tuple[tuple[Finding, ...], dict[str, Experiment]]:
    """Train one step of sum((x @ w)²) under a loss scale."""
    low = getattr(torch, dtype)
    model = nn.Linear(FEATURES, 1, bias=False).to(low)
    nn.init.ones_(model.weight)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
    watched: Any = numcheck_torch.instrument(
        model, optimizer=sgd, on_error="record", audit_first=False, **options
    )
    out = watched(torch.tensor(x).to(low))
    ((out**2).sum().float() * scale).backward()
    sgd.step()
    watched.numcheck.close()
    return told(watched.numcheck)


def in_jax(
    x: np.ndarray[Any, Any], dtype: str, scale: float = 1.0, **options: Any
) -> tuple[tuple[Finding, ...], dict[str, Experiment]]:
    """Train one step of sum((x @ w)²) under a loss scale."""
    low = jnp.dtype(dtype)

    def loss_of(w: Any, x: Any) -> Any:
        return ((x @ w) ** 2).sum().astype(jnp.float32) * scale

    @jax.jit
    def step(w: Any, x: Any) -> Any:
        loss, gradient = jax.value_and_grad(loss_of)(w, x)
        return w - (1e-3 * gradient).astype(w.dtype), loss

    watched = numcheck_jax.instrument(
        step, on_error="record", audit_first=False, **options
    )
    watched(jnp.ones((FEATURES, 1), low), jnp.asarray(x, low))
    watched.numcheck.close()
    return told(watched.numcheck)


@pytest.fixture(params=[in_torch, in_jax], ids=["torch", "jax"])
def trained(request: pytest.FixtureRequest) -> Trained:
    chosen: Trained = request.param
    return chosen


def test_the_operator_alone_needs_the_magnitude_numpy_says(trained: Trained) -> None:
    (finding, *_), ran = trained(batch(200.0), "float16")
    assert ran["operator_wider"].result == "healthy"
    assert ran["operator_wider"].fields["dtype"] == "float32"
    assert ran["operator_wider"].fields["amax"] == (4 * 200.0) ** 2
    assert "operator_wider_healthy" in [e.key for e in finding.evidence]


def test_an_operator_in_float32_is_asked_in_float64(trained: Trained) -> None:
    _, ran = trained(batch(1e30), "float32")
    alone = ran["operator_wider"]
    assert (alone.result, alone.fields["dtype"]) == ("healthy", "float64")
    x = float(np.float32(1e30))
    assert alone.fields["amax"] == pytest.approx((4 * x) ** 2, rel=1e-6)


def test_bfloat16_in_place_of_float16_is_tried_and_advised(trained: Trained) -> None:
    (finding, *_), ran = trained(batch(200.0), "float16")
    assert ran["bfloat16"].result == "healthy"
    assert (finding.help[0].key, finding.help[0].tried) == ("bfloat16", True)


def test_the_largest_healthy_loss_scale_is_found(trained: Trained) -> None:
    # The seed of the backward pass is 2·(x @ w)·scale in float16: 2·4·scale at x = 1.
    findings, ran = trained(batch(1.0), "float16", scale=2.0**14)
    unscaled = ran["without_loss_scale"]
    assert (unscaled.result, unscaled.fields["scale"]) == ("healthy", 2.0**14)
    largest = float(unscaled.fields["largest"])
    assert trained(batch(1.0), "float16", scale=largest)[0] == ()
    assert trained(batch(1.0), "float16", scale=2 * largest)[0]
    assert findings[0].cause is not None
    assert findings[0].cause.rule == "N153"
    assert findings[0].help[0].tried


def test_without_a_loss_scale_none_is_varied(trained: Trained) -> None:
    _, ran = trained(batch(200.0), "float16")
    assert "without_loss_scale" not in ran


def test_the_batch_without_its_outlier_is_tried_and_advised(trained: Trained) -> None:
    (finding, *_), ran = trained(batch(1.0, {3: 1e30}), "float32")
    assert ran["rows"].fields["rows"] == "3"
    assert (finding.help[0].key, finding.help[0].tried) == ("drop_samples", True)


def test_without_experiments_nothing_is_run_or_called_tried(trained: Trained) -> None:
    (finding, *_), ran = trained(batch(200.0), "float16", experiments=False)
    assert ran == {}
    assert not any(advice.tried for advice in finding.help)


def test_clipped_gradients_heal_an_update_that_overflows() -> None:
    model = nn.Linear(2, 1, bias=False)
    sgd = torch.optim.SGD(model.parameters(), lr=1e30)
    watched: Any = numcheck_torch.instrument(
        model, optimizer=sgd, on_error="record", audit_first=False
    )
    for _ in range(2):
        sgd.zero_grad()
        (watched(torch.ones(3, 2)).sum() * 1e10).backward()
        sgd.step()
    watched.numcheck.close()
    findings, ran = told(watched.numcheck)
    assert ran["with_clipping"].result == "healthy"
    assert (findings[0].help[0].key, findings[0].help[0].tried) == (
        "clip_gradients",
        True,
    )


def clipped_in_jax(rates: tuple[float, ...]) -> tuple[Any, dict[str, Experiment]]:
    """Train two layers of which the update multiplies the gradient by each rate."""

    def loss_of(weights: Any, x: Any) -> Any:
        hidden = x @ weights["first"] + weights["bias"]
        return (hidden @ weights["last"]).sum() * 1e10

    @jax.jit
    def step(weights: Any, x: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(weights, x)
        for rate in rates:
            gradients = jax.tree.map(lambda g, r=rate: r * g, gradients)
        return jax.tree.map(jnp.subtract, weights, gradients), loss

    watched = numcheck_jax.instrument(step, on_error="record", audit_first=False)
    weights = {"first": jnp.ones((2, 2)), "bias": jnp.ones(2), "last": jnp.ones((2, 1))}
    watched(weights, jnp.ones((3, 2)))
    watched.numcheck.close()
    return told(watched.numcheck)


def test_clipped_gradients_heal_a_jax_update_that_overflows() -> None:
    findings, ran = clipped_in_jax((1e30,))
    assert ran["with_clipping"].result == "healthy"
    assert (findings[0].help[0].key, findings[0].help[0].tried) == (
        "clip_gradients",
        True,
    )


def test_clipping_that_does_not_heal_a_jax_update_is_said_to_fail() -> None:
    _, ran = clipped_in_jax((1e30, 1e30))
    assert ran["with_clipping"].result == "failed"


def test_a_jax_step_clipped_is_what_optax_makes_of_it() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)), jnp.float32)
    weights = {"w": jnp.full((3, 2), 0.5), "b": jnp.zeros(2)}

    def loss_of(weights: Any, x: Any) -> Any:
        return ((jnp.tanh(x @ weights["w"]) + weights["b"] - 3) ** 2).sum()

    def stepped(adam: Any, weights: Any, x: Any) -> Any:
        gradients = jax.grad(loss_of)(weights, x)
        updates, _ = adam.update(gradients, adam.init(weights), weights)
        return optax.apply_updates(weights, updates)

    sgd = optax.sgd(0.1, momentum=0.9)
    plain = jax.make_jaxpr(functools.partial(stepped, sgd))(weights, x)
    step = functools.partial(stepped, optax.chain(optax.clip_by_global_norm(0.5), sgd))
    watched = numcheck_jax.instrument(functools.partial(stepped, sgd), every=1)
    watched(weights, x)
    watched.numcheck.close()
    view = watched.numcheck.incidents[-1].view
    args = [*jax.tree.leaves(weights), x]
    outs = with_clipping(plain, args, view, 0.5)
    expected = jax.tree.leaves(step(weights, x))
    for ours, theirs in zip(outs, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_clipping_that_wiped_gradients_out_is_told_beside_what_they_were() -> None:
    plain = nn.Linear(64, 1, bias=False).half()
    sgd = torch.optim.SGD(plain.parameters(), lr=1e-3)
    watched: Any = numcheck_torch.instrument(
        plain, sgd, audit_first=False, on_error="record"
    )
    out = watched(torch.full((4, 64), 150.0, dtype=torch.float16))
    (200.0 * out.float().mean()).backward()
    assert plain.weight.grad is not None
    amax = float(plain.weight.grad.abs().max())
    torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
    sgd.step()
    (finding,) = watched.numcheck.findings
    (seen,) = [e for e in finding.evidence if e.key == "without_clipping_healthy"]
    assert seen.fields["amax"] == amax
