# SPDX-License-Identifier: Apache-2.0
"""A training whose values grow until float16 cannot hold them is warned in time."""

from __future__ import annotations

import torch
from torch import nn

import numcheck_torch

FEATURES = torch.eye(4) * 2**0.5


class Grows(nn.Module):
    """Computes in float16 what it then has squared."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.tensor([1.0, -2.0, 0.5, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.half() @ self.weights.half()).square().float()


def train(rate: float, steps: int) -> tuple[numcheck_torch.TorchMonitor, int | None]:
    """Train with a learning rate; return the monitor and the step that overflows."""
    grows = Grows()
    optimizer = torch.optim.SGD(grows.parameters(), lr=rate)
    model = numcheck_torch.instrument(
        grows, optimizer=optimizer, every=5, on_error="record"
    )
    broke = None
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(FEATURES).mean()
        loss.backward()
        optimizer.step()
        if not torch.isfinite(loss):
            broke = step
            break
    model.numcheck.close()
    return model.numcheck, broke


def test_drift_is_warned_of_at_least_20_steps_before_the_overflow() -> None:
    # The curvature is 1 in every direction: each step turns the weights over and
    # makes them 5 % larger.
    monitor, overflow = train(rate=2.05, steps=200)
    assert overflow is not None
    drifts = [f for f in monitor.findings if f.id == "N713"]
    assert drifts
    assert drifts[0].severity == "warning"
    assert drifts[0].step <= overflow - 20


def test_training_that_settles_is_not_warned_of() -> None:
    monitor, overflow = train(rate=0.1, steps=60)
    assert overflow is None
    assert monitor.findings == ()
