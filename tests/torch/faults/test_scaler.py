# SPDX-License-Identifier: Apache-2.0
"""A gradient scaler may search for its scale, and must not hide a fault in that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional as fn

import numcheck_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck_torch.monitor import TorchMonitor


def trained(
    loss_of: Callable[[torch.Tensor, int], torch.Tensor], steps: int, **scaling: Any
) -> tuple[TorchMonitor, torch.amp.GradScaler]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", **scaling)
    options: Any = {"on_error": "record", "audit_first": False, "experiments": False}
    monitor = numcheck_torch.instrument(model, **options).numcheck
    for step in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_of(model(torch.randn(16, 8)), step)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    monitor.close()
    return monitor, scaler


def ordinary(out: torch.Tensor, step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(step)
    return fn.cross_entropy(
        out.float(), torch.randint(0, 4, (16,), generator=generator)
    )


def skips(monitor: TorchMonitor) -> int:
    return sum(event.name == "skipped" for event in monitor.events)


@pytest.mark.parametrize(
    "scaling",
    [{"init_scale": 2.0**20}, {"init_scale": 2.0**10, "growth_interval": 5}],
    ids=["from above", "by growing"],
)
def test_a_search_for_the_scale_is_no_finding(scaling: dict[str, Any]) -> None:
    monitor, scaler = trained(ordinary, 60, **scaling)
    assert skips(monitor) > 0
    assert scaler.get_scale() > 1
    assert monitor.findings == ()


@pytest.mark.parametrize("level", ["watch", "trace"])
def test_a_search_in_steps_that_cannot_be_run_again_is_no_finding(level: Any) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18)
    monitor = numcheck_torch.instrument(model, level=level).numcheck
    x = torch.empty(8, 4)
    for _ in range(9):
        x.copy_(torch.randn(8, 4) * 8)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(x).float().square().mean()
        scaler.scale(loss).backward()
        x.zero_()
        scaler.step(optimizer)
        scaler.update()
    monitor.close()
    assert skips(monitor) > 4
    assert monitor.findings == ()


def test_a_scale_that_falls_for_ever_is_the_operator_that_never_heals() -> None:
    def never(out: torch.Tensor, step: int) -> torch.Tensor:
        nothing = (out.float() - out.float().detach()).abs()
        return nothing.sqrt().mean() + ordinary(out, step)  # the origin

    monitor, scaler = trained(never, 12, init_scale=2.0**10)
    assert skips(monitor) == 12
    assert scaler.get_scale() < 1
    (found,) = [f for f in monitor.findings if f.severity == "error"]
    assert found.phase == "backward"
    assert found.site.source is not None
    assert "# the origin" in found.site.source.text
    assert found.harm[0].op == "gradient:0.weight"
    assert found.step == 0  # unscaled, the first step fails as well


def test_a_switched_off_scaler_is_no_scaler() -> None:
    monitor, _ = trained(ordinary, 3, enabled=False)
    assert monitor.findings == ()
    assert [e.value for e in monitor.events if e.name == "fault"] == []
