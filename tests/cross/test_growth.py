# SPDX-License-Identifier: Apache-2.0
"""A training on its way out is warned of with default options, in both frameworks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import numcheck_jax
import numcheck_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Trained = Callable[..., tuple[Any, int | None]]

FEATURES = np.eye(4, dtype=np.float32) * np.float32(2) ** np.float32(0.5)
WEIGHTS = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
"""Of a loss whose curvature is one in every direction: a learning rate of 2 + d turns
the weights over at each step and makes them d larger."""


def in_torch(
    rate: float, steps: int, start: float = 1.0, **options: Any
) -> tuple[Any, int | None]:
    class Grows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.Parameter(torch.tensor(start * WEIGHTS))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.half() @ self.weights.half()).square().float()

    model = Grows()
    sgd = torch.optim.SGD(model.parameters(), lr=rate)
    watched: Any = numcheck_torch.instrument(
        model, sgd, **{"on_error": "record", **options}
    )
    broke = None
    for step in range(steps):
        sgd.zero_grad()
        loss = watched(torch.tensor(FEATURES)).mean()
        loss.backward()
        sgd.step()
        if not torch.isfinite(loss):
            broke = step
            break
    watched.numcheck.close()
    return watched.numcheck, broke


def in_jax(
    rate: float, steps: int, start: float = 1.0, **options: Any
) -> tuple[Any, int | None]:
    def loss_of(weights: Any, x: Any) -> Any:
        half = jnp.float16
        errors = x.astype(half) @ weights.astype(half)
        return jnp.mean(jnp.square(errors).astype(jnp.float32))

    @jax.jit
    def descend(weights: Any, x: Any) -> tuple[Any, Any]:
        loss, gradient = jax.value_and_grad(loss_of)(weights, x)
        return weights - rate * gradient, loss

    watched = numcheck_jax.instrument(descend, **{"on_error": "record", **options})
    weights, broke = jnp.asarray(start * WEIGHTS), None
    for step in range(steps):
        weights, loss = watched(weights, jnp.asarray(FEATURES))
        if not np.isfinite(loss):
            broke = step
            break
    watched.numcheck.close()
    return watched.numcheck, broke


@pytest.fixture(params=[in_torch, in_jax], ids=["torch", "jax"])
def trained(request: pytest.FixtureRequest) -> Trained:
    chosen: Trained = request.param
    return chosen


def test_a_drift_is_warned_of_twenty_steps_ahead_by_default(trained: Trained) -> None:
    monitor, broke = trained(2.05, 200)
    assert broke is not None
    warned = [f for f in monitor.findings if f.id == "N713"]
    assert warned[0].severity == "warning"
    assert warned[0].step <= broke - 20


def test_a_loss_that_multiplies_is_warned_of_before_it_is_nan(trained: Trained) -> None:
    monitor, broke = trained(2.6, 200, start=1e-3)
    assert broke is not None
    warned = [f for f in monitor.findings if f.id == "N711"]
    assert warned[0].step < broke


def test_a_training_that_settles_is_neither_audited_again_nor_warned_of(
    trained: Trained,
) -> None:
    monitor, broke = trained(0.1, 60)
    assert broke is None
    assert monitor.findings == ()
    assert [i.step for i in monitor.incidents] == [0]


def test_whoever_wants_no_audits_gets_none(trained: Trained) -> None:
    monitor, broke = trained(2.05, 60, audit_first=False)
    assert broke is None
    assert monitor.incidents == ()
