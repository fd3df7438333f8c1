# SPDX-License-Identifier: Apache-2.0
"""Replays leave parameters that a forward call writes as the user's calls do."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import numcheck_torch


class Teaching(nn.Module):
    """Averages its parameters into those of a teacher, at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.student = nn.Linear(3, 3)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pairs = zip(self.teacher.parameters(), self.student.parameters(), strict=True)
        for average, own in pairs:
            average.data.mul_(0.9).add_(own.data, alpha=0.1)
        out: torch.Tensor = self.student(x) - self.teacher(x)
        return out


class Shrinking(nn.Module):
    """Scales its own weights down at each call; two of them share their memory."""

    def __init__(self) -> None:
        super().__init__()
        flat = torch.linspace(-1.0, 1.0, 12)
        self.one, self.two = nn.Parameter(flat[:6]), nn.Parameter(flat[6:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.two.data[:3] *= 0.5
            self.one.mul_(0.9)
        return x @ torch.stack([self.one, self.two])


def trained(made: type[nn.Module], **options: Any) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    called: Any = model
    if options:
        called = numcheck_torch.instrument(model, optimizer, every=2, **options)
    x = torch.ones(2, 3 if made is Teaching else 2)
    for _ in range(5):
        optimizer.zero_grad()
        called(x).square().mean().backward()
        optimizer.step()
    if options:
        called.numcheck.close()
        assert not [e for e in called.numcheck.events if e.name == "fault"]
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize("made", [Teaching, Shrinking])
@pytest.mark.parametrize("level", ["watch", "trace"])
def test_parameters_that_a_call_writes_end_as_in_a_plain_run(
    made: type[nn.Module], level: str
) -> None:
    for plain, watched in zip(trained(made), trained(made, level=level), strict=True):
        assert torch.equal(plain, watched)
