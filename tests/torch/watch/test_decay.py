# SPDX-License-Identifier: Apache-2.0
"""What decay does to weights is computed as torch's own optimizers do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import numcheck_torch
from numcheck_torch.decay import decay_gain

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=1.0, weight_decay=3.0),
    "sgd shrinking": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.5),
    "momentum": lambda p: torch.optim.SGD(p, lr=1.0, weight_decay=5.0, momentum=0.9),
    "dampened": lambda p: torch.optim.SGD(
        p, lr=1.0, weight_decay=9.0, momentum=0.8, dampening=0.5
    ),
    "nesterov": lambda p: torch.optim.SGD(
        p, lr=1.0, weight_decay=3.0, momentum=0.9, nesterov=True
    ),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.5, weight_decay=6.0),
    "nadam decoupled": lambda p: torch.optim.NAdam(
        p, lr=0.5, weight_decay=6.0, decoupled_weight_decay=True
    ),
}


@pytest.mark.parametrize("made", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_the_gain_is_what_torch_makes_of_a_weight_without_gradient(
    made: Callable[[Any], torch.optim.Optimizer],
) -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = made([weight])
    sizes = []
    for _ in range(60):
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
        sizes.append(abs(weight.item()))
    assert decay_gain(optimizer) == pytest.approx(sizes[-1] / sizes[-2], rel=1e-3)


@pytest.mark.parametrize("decay", [0.0, 6.0])
def test_adam_is_never_blamed_for_its_decay(decay: float) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    assert decay_gain(torch.optim.Adam([weight], lr=5.0, weight_decay=decay)) is None


def test_a_training_that_strong_decay_blows_up_names_the_decay() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=5.0)
    watched = numcheck_torch.instrument(model, audit_first=False, on_error="record")
    x = torch.randn(32, 8)
    for _ in range(60):
        optimizer.zero_grad()
        (model(x) - x[:, :1]).square().mean().backward()
        optimizer.step()
    monitor: numcheck_torch.TorchMonitor = watched.numcheck  # type: ignore[assignment]
    causes = {f.severity: f.cause for f in monitor.findings}
    assert {s: c.rule for s, c in causes.items() if c is not None} == {
        "warning": "N763",
        "error": "N763",
    }
