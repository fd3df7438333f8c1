# SPDX-License-Identifier: Apache-2.0
"""Trainings that break nothing and learn badly are noted, in both frameworks."""

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

    Trained = Callable[..., list[tuple[str, str]]]

WIDTH = 16


def weights(layers: int, gain: float) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    made = [random.normal(size=(WIDTH, WIDTH)) * gain / 4 for _ in range(layers)]
    return [w.astype(np.float32) for w in made]


def batches(steps: int, spike: int | None) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(1)
    found = [random.normal(size=(8, WIDTH)).astype(np.float32) for _ in range(steps)]
    if spike is not None:
        found[spike] *= 20
    return found


def in_torch(
    function: str, layers: int, gain: float, steps: int = 1, spike: int | None = None
) -> list[tuple[str, str]]:
    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            made = [torch.tensor(w) for w in weights(layers, gain)]
            self.w = nn.ParameterList(made)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for w in self.w:
                x = getattr(torch, function)(x @ w)
            return x

    model = Stack()
    sgd = torch.optim.SGD(model.parameters(), lr=1e-4)
    watched: Any = numcheck_torch.instrument(model, sgd, on_error="record", every=19)
    for x in batches(steps, spike):
        sgd.zero_grad()
        watched(torch.tensor(x)).square().mean().backward()
        sgd.step()
    watched.numcheck.close()
    return [(f.id, f.severity) for f in watched.numcheck.findings]


def in_jax(
    function: str, layers: int, gain: float, steps: int = 1, spike: int | None = None
) -> list[tuple[str, str]]:
    apply = {"tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid, "relu": jax.nn.relu}

    def loss_of(made: Any, x: Any) -> Any:
        for w in made:
            x = apply[function](x @ w)
        return (x**2).mean()

    @jax.jit
    def step(made: Any, x: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(made, x)
        moved = jax.tree.map(lambda w, g: w - 1e-4 * g, made, gradients)
        return moved, loss

    watched = numcheck_jax.instrument(step, on_error="record", every=19)
    made = [jnp.asarray(w) for w in weights(layers, gain)]
    for x in batches(steps, spike):
        made, _ = watched(made, jnp.asarray(x))
    watched.numcheck.close()
    return [(f.id, f.severity) for f in watched.numcheck.findings]


@pytest.fixture(params=[in_torch, in_jax], ids=["torch", "jax"])
def trained(request: pytest.FixtureRequest) -> Trained:
    chosen: Trained = request.param
    return chosen


@pytest.mark.parametrize("function", ["tanh", "sigmoid"])
def test_saturated_layers_are_noted(trained: Trained, function: str) -> None:
    assert ("N715", "note") in trained(function, layers=3, gain=300.0)


@pytest.mark.parametrize("function", ["tanh", "sigmoid", "relu"])
def test_layers_of_ordinary_gain_are_not(trained: Trained, function: str) -> None:
    assert trained(function, layers=3, gain=1.0) == []


def test_gradients_that_vanish_in_a_deep_stack_are_noted(trained: Trained) -> None:
    found = trained("sigmoid", layers=14, gain=0.5)
    assert ("N714", "note") in found


def test_a_loss_that_spikes_and_comes_back_is_noted(trained: Trained) -> None:
    assert ("N716", "note") in trained("relu", 2, 1.4, steps=20, spike=12)
    assert trained("relu", 2, 1.4, steps=20) == []
