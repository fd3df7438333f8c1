# SPDX-License-Identifier: Apache-2.0
"""A running average too coarse to move is found, and one that moves is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import numcheck_torch
from tests.torch.faults.oracle import MARK

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding


class Averages(nn.Module):
    def __init__(self, way: str, dtype: torch.dtype, decay: float) -> None:
        super().__init__()
        self.layer, self.way, self.decay = nn.Linear(8, 8), way, decay
        self.register_buffer("average", torch.ones(8, dtype=dtype))
        self.register_buffer("count", torch.full((1,), 256.0, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.layer(x)
        new = h.detach().mean(0).to(self.average.dtype)
        if self.way == "in place":
            self.average.mul_(self.decay).add_(new, alpha=1 - self.decay)  # fault
        elif self.way == "replaced":
            self.average = self.average * self.decay + new * (1 - self.decay)  # fault
        elif self.way == "interpolated":
            self.average.lerp_(new, 1 - self.decay)  # fault
        else:
            self.count += 1  # fault
        return h / (1 + self.average.float().abs())


WAYS = ["in place", "replaced", "interpolated", "counted"]


def trained(way: str, dtype: torch.dtype, decay: float) -> tuple[Averages, Any]:
    torch.manual_seed(0)
    model = Averages(way, dtype, decay)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    monitor = numcheck_torch.instrument(model, on_error="record").numcheck
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(16, 8) + 1).square().mean().backward()
        optimizer.step()
    monitor.close()
    return model, monitor


@pytest.mark.parametrize("way", WAYS)
def test_an_average_that_stands_still_in_bfloat16_is_found(way: str) -> None:
    model, monitor = trained(way, torch.bfloat16, 0.999)
    # The truth: the value is what it was at first.
    assert torch.equal(model.average, torch.ones(8, dtype=torch.bfloat16))
    assert model.count.item() == 256
    found: Finding = monitor.findings[0]
    name = "count" if way == "counted" else "average"
    assert (found.id, found.kind) == ("N401", "stagnation")
    assert found.harm[0].op == f"buffer:{name}"
    assert found.site.source is not None
    assert found.site.source.text.endswith(MARK)


@pytest.mark.parametrize("way", WAYS)
def test_an_average_that_moves_in_float32_is_left_alone(way: str) -> None:
    model, monitor = trained(way, torch.float32, 0.999)
    moved = model.count.item() > 256 or not torch.equal(model.average, torch.ones(8))
    assert moved
    assert monitor.findings == ()


@pytest.mark.parametrize("way", WAYS[:3])
def test_a_quick_average_in_bfloat16_is_left_alone(way: str) -> None:
    _, monitor = trained(way, torch.bfloat16, 0.5)
    assert monitor.findings == ()


def test_the_statistics_of_a_bfloat16_batch_norm_are_left_alone() -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(8, 1), nn.BatchNorm1d(1), nn.Linear(1, 1))
    model = numcheck_torch.instrument(layers.bfloat16(), on_error="record", every=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for _ in range(20):
        optimizer.zero_grad()
        x = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
        model(x.bfloat16()).square().mean().backward()
        optimizer.step()
    with model.numcheck as monitor:
        assert not [f for f in monitor.findings if "buffer" in f.harm[0].op]
