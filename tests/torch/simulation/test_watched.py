# SPDX-License-Identifier: Apache-2.0
"""A simulated PyTorch program is watched, explained and compared like a real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.nn import functional

import numcheck_torch
from numcheck import NonFiniteError
from numcheck.cli import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Loud(nn.Module):
    """Two layers between which everything becomes 200 times as large."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.second = nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the scores of four classes."""
        return self.second(torch.relu(self.first(x) * 200.0))


def step_of(model: nn.Module) -> Callable[[], torch.Tensor]:
    """Returns a training step whose inputs overflow float16 on the way."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = (torch.randn(8, 64) * 800).half(), torch.randint(0, 4, (8,))

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        out = model(x)
        functional.cross_entropy(out.float(), y).backward()
        optimizer.step()
        return out.detach()

    return step


def watched(order: str, profile: str) -> tuple[Callable[[], torch.Tensor], Any]:
    """Returns a step and its monitor, simulated and watched in some order."""
    torch.manual_seed(0)
    model: Any = Loud().half()
    step = step_of(model)
    if order == "simulate, then watch":
        numcheck_torch.instrument(numcheck_torch.simulate(model, profile))
    elif order == "watch, then simulate":
        numcheck_torch.simulate(numcheck_torch.instrument(model), profile)
    else:
        step = numcheck_torch.simulate(step, profile)
        step = numcheck_torch.instrument(step)
        return step, lambda: step.numcheck  # type: ignore[attr-defined]
    return step, lambda: model.numcheck


ORDERS = ("simulate, then watch", "watch, then simulate", "a function")


@pytest.mark.parametrize("order", ORDERS)
def test_an_overflow_that_the_device_keeps_is_explained(order: str) -> None:
    step, _ = watched(order, "ascend910b")
    with pytest.raises(NonFiniteError) as error:
        step()
    assert error.value.finding.id == "N101"
    assert error.value.finding.site.op == "aten.mul.Tensor"
    source = error.value.finding.site.source
    assert source is not None
    assert "* 200.0" in source.text


@pytest.mark.parametrize("order", ORDERS)
def test_an_overflow_that_the_device_hides_is_named(order: str) -> None:
    step, _ = watched(order, "ascend910a")
    with pytest.raises(NonFiniteError, match="hidden by saturation") as error:
        step()
    found = error.value.finding
    assert (found.id, found.site.op) == ("N601", "aten.mul.Tensor")
    assert found.cause is not None
    assert {"saturated", "overflow_flag"} <= {e.key for e in found.evidence}


class Masked(Loud):
    """Hides half of what it computes."""

    def __init__(self, hidden: float) -> None:
        super().__init__()
        self.hidden = hidden

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns shares of the visible half."""
        scores = self.first(x)
        mask = torch.zeros_like(scores)
        mask[:, 32:] = self.hidden
        return self.second(torch.softmax(scores + mask, -1))


def trained(model: Any, larges: tuple[float, ...], dtype: torch.dtype) -> Any:
    """Returns the monitor of a training on a device that saturates."""
    torch.manual_seed(0)
    model = numcheck_torch.simulate(model.to(dtype), "ascend910a")
    numcheck_torch.instrument(model, on_error="record")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for large in larges:
        optimizer.zero_grad()
        model((torch.randn(8, 64) * large).to(dtype)).float().mean().backward()
        optimizer.step()
    model.numcheck.close()
    return model.numcheck


def test_an_overflow_of_a_later_step_is_named() -> None:
    monitor = trained(Loud(), (1.0, 1.0, 800.0), torch.float16)
    (found,) = monitor.findings
    assert (found.id, found.step, found.site.op) == ("N601", 2, "aten.mul.Tensor")


@pytest.mark.parametrize("wrap", ["module", "function"])
def test_a_loss_scale_is_searched_by_the_flag_of_a_device_that_saturates(
    wrap: str,
) -> None:
    torch.manual_seed(0)
    model: Any = nn.Linear(64, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(torch.randn(8, 64)).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    if wrap == "module":
        numcheck_torch.simulate(model, "ascend910a")
    else:
        step = numcheck_torch.simulate(step, "ascend910a")
    before = model.weight.detach().clone()
    scales = []
    for _ in range(16):
        scales.append(scaler.get_scale())
        step()
    assert scales[0] > scales[5] > scales[-1]
    assert scaler.get_scale() == scales[-1]
    assert not torch.equal(before, model.weight)
    assert torch.allclose(before, model.weight, atol=0.01)


@pytest.mark.parametrize("hidden", [-65504.0, float("-inf")])
def test_a_mask_that_saturates_is_no_finding(hidden: float) -> None:
    monitor = trained(Masked(hidden), (1.0, 1.0, 40.0), torch.float16)
    assert [f.id for f in monitor.findings if f.id.startswith("N6")] == []


def test_factors_that_the_matrix_engine_cuts_off_are_named() -> None:
    monitor = trained(Loud(), (1.0, 1.0, 1e6), torch.float32)
    found = monitor.findings[0]
    assert (found.id, found.step, found.site.family) == ("N601", 2, "matmul")
    assert trained(Loud(), (1.0, 1.0, 1e2), torch.float32).findings == ()


def test_a_nan_that_the_device_turns_into_zero_is_named() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(8, 8)
    model: Any = nn.Sequential(layer)
    model.register_forward_hook(lambda _m, _x, out: torch.sqrt(out))
    numcheck_torch.instrument(numcheck_torch.simulate(model, "ascend910a"))
    loss = model(torch.randn(4, 8)).sum()
    with pytest.raises(NonFiniteError) as error:
        loss.backward()
    found = error.value.finding
    assert (found.id, found.site.op) == ("N601", "aten.sqrt.default")
    assert "N302" in {e.fields.get("rule") for e in found.evidence}
    model.numcheck.close()


def recorded(profile: str, where: Path) -> None:
    """Trains two layers for a step and keeps the run."""
    torch.manual_seed(0)
    model: Any = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    x, y = torch.randn(8, 64), torch.randint(0, 4, (8,))
    numcheck_torch.instrument(
        numcheck_torch.simulate(model, profile), level="trace", run=where
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with model.numcheck:
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def test_compare_names_the_first_product_of_another_device(tmp_path: Path) -> None:
    for profile in ("float32", "mxfp4"):
        recorded(profile, tmp_path / profile)
    runs = [str(tmp_path / p) for p in ("float32", "mxfp4")]
    out = CliRunner().invoke(cli, ["compare", *runs, "--width", "200", "--all"])
    assert out.exit_code == 1
    rows = [line.split() for line in out.output.splitlines()]
    first = next(row for row in rows if row and row[0] == "DIFFERENT")
    assert first[1:3] == ["module", "0"]
    assert any(row[:3] == ["follows", "module", "2"] for row in rows)
    assert any(row[:2] == ["equal", "parameter"] for row in rows)


def test_compare_finds_nothing_where_the_devices_are_the_same(tmp_path: Path) -> None:
    for name in ("a", "b"):
        recorded("mxfp4", tmp_path / name)
    out = CliRunner().invoke(cli, ["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert out.exit_code == 0
