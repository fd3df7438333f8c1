# SPDX-License-Identifier: Apache-2.0
"""Small trainings that break, and the loops that drive them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import numcheck_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck_torch.monitor import TorchMonitor


class Breaks(nn.Module):
    """Takes the logarithm of the first feature, which is zero where `x` says so."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + torch.log(x[:, :1].abs())


def inputs(*, bad: bool = False) -> torch.Tensor:
    x = torch.rand(6, 4, generator=torch.Generator().manual_seed(1)) + 0.5
    if bad:
        x[2, 0] = 0.0
    return x


def square(out: torch.Tensor) -> torch.Tensor:
    return out.square().mean()


def watched(
    model: nn.Module | None = None, **options: Any
) -> tuple[nn.Module, torch.optim.Optimizer, TorchMonitor]:
    """Return a model that breaks on bad inputs, its optimizer and its monitor."""
    torch.manual_seed(0)
    model = Breaks() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = numcheck_torch.instrument(model, **options)
    return model, optimizer, model.numcheck


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    bad_steps: tuple[int, ...],
    steps: int = 4,
    loss_fn: Callable[[torch.Tensor], torch.Tensor] = square,
) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        loss_fn(model(inputs(bad=step in bad_steps))).backward()
        optimizer.step()
