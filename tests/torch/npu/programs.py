# SPDX-License-Identifier: Apache-2.0
"""Trainings on the simulated device that go wrong for a known reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

import numcheck_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.diagnose import Finding

STEPS = 3


class Squares(torch.nn.Module):
    """Squares what it computes, which leaves float16's range for large inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x)
        return self.down(torch.relu(h * h))


class Roots(Squares):
    """Takes the root of a negative number when its inputs are large."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x)
        return self.down(torch.sqrt(20 - h.abs()))


class Attends(torch.nn.Module):
    """One fused attention, given a mask from outside."""

    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.project = torch.nn.Linear(8, 8)
        self.mask = mask.to("npu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.project(x)[:, None]
        return torch.ops.npu.npu_fusion_attention(
            q, q, q, 1, "BNSD", atten_mask=self.mask
        )[0]


def train(
    model: torch.nn.Module,
    *,
    large: float = 1.0,
    dtype: torch.dtype = torch.float16,
    before_each: Callable[[], object] = lambda: None,
    before_last: Callable[[], object] = lambda: None,
    shape: tuple[int, ...] = (4, 8),
    **options: Any,
) -> Any:
    """Train for a few steps, the last on inputs `large` times as large.

    Returns:
        The closed monitor.
    """
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.3)
    model = model.to("npu", dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    watched: Any = numcheck_torch.instrument(
        model, optimizer, on_error="record", **options
    )
    for step in range(STEPS):
        before_each()
        x = torch.randn(shape)
        if step == STEPS - 1:
            x = x * large
            before_last()
        loss = watched(x.to("npu", dtype)).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    watched.numcheck.close()
    return watched.numcheck


def first(monitor: Any) -> Finding:
    """Return the first finding; a fault of numcheck's own fails the test."""
    faults = [e.value for e in monitor.events if e.name.startswith("fault")]
    assert not faults, faults[-1]
    found: Finding = monitor.findings[0]
    return found
