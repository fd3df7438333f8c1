# SPDX-License-Identifier: Apache-2.0
"""A check inside a watched step is the monitor's to tell, and waits for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import torch
from torch import nn

import numcheck_torch
from numcheck import NonFiniteError
from numcheck_torch import sentinel
from numcheck_torch.boundary import BOUNDARY
from numcheck_torch.numerics_check import check_numerics
from tests.torch.watch.loops import inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck_torch.monitor import TorchMonitor


@pytest.fixture(autouse=True)
def _nobody_listens_afterwards(_only_monitors_of_this_test: None) -> Iterator[None]:
    yield
    assert BOUNDARY.mailbox is None
    assert BOUNDARY.collect() == ()


class Masks(nn.Module):
    """Masks a logarithm of zero: loss and gradients stay finite."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logs = check_numerics(torch.log(x[:, :1]), "logs")
        return self.layer(x) + torch.where(x[:, :1] > 0, logs, 0.0)


def watched(
    model: nn.Module, **options: Any
) -> tuple[nn.Module, torch.optim.Optimizer, TorchMonitor]:
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = numcheck_torch.instrument(model, audit_first=False, **options)
    return model, optimizer, model.numcheck


def step(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor
) -> torch.Tensor:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def test_a_masked_value_is_reported_by_the_monitor_with_its_origin() -> None:
    model, optimizer, monitor = watched(Masks())
    with monitor:
        step(model, optimizer, inputs())
        with pytest.raises(NonFiniteError) as caught:
            step(model, optimizer, inputs(bad=True))
    finding = caught.value.finding
    assert finding.site.op == "aten.log.default"
    assert finding.step == 1
    assert finding.reproduced is True
    assert "output:logs" in [site.op for site in finding.harm]
    assert monitor.findings == (finding,)


def test_checks_under_a_monitor_add_no_reading_of_the_device() -> None:
    counts = []
    for check in (lambda x, name: x, check_numerics):
        torch.manual_seed(0)
        # Float64 on the host is read as a device's values are, together and counted.
        layers = nn.ModuleList(nn.Linear(4, 4).double() for _ in range(5))

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = layers  # noqa: B023 - made in this turn

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                x = x.double()
                for layer in self.layers:
                    x = check(layer(x), "hidden")  # noqa: B023 - called in this turn
                return x

        model, optimizer, monitor = watched(Net())
        with mock.patch.object(sentinel, "_read", wraps=sentinel._read) as read:
            with monitor:
                for _ in range(3):
                    step(model, optimizer, inputs())
            counts.append(read.call_count)
    assert counts[0] == counts[1] > 0


class KinkedLoss(nn.Module):
    """Its gradient is infinite on the way, and masked before it reaches weights."""

    def __init__(self, zero: float) -> None:
        super().__init__()
        self.layer, self.zero = nn.Linear(4, 1), zero

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.layer(x) * self.zero
        h = check_numerics(h, "under the root")
        return self.layer(x) + torch.where(h > 1, h.abs().sqrt(), h)


def test_a_checked_gradient_is_named() -> None:
    model, optimizer, monitor = watched(KinkedLoss(0.0), on_error="record")
    with monitor:
        step(model, optimizer, inputs())
    (finding,) = monitor.findings
    assert finding.phase == "backward"
    assert "gradient:under the root" in [site.op for site in finding.harm]
    assert finding.reproduced is True


def test_a_check_in_the_loss_is_made_again_in_the_replay() -> None:
    model, optimizer, monitor = watched(nn.Linear(4, 3), on_error="record")
    with monitor:
        for bad in (False, True):
            optimizer.zero_grad()
            x = inputs(bad=bad)
            out = check_numerics(model(x), "out")
            ratio = check_numerics(out / x[:, :1], "ratio")
            torch.where(x[:, :1] > 0, ratio, 0.0).square().nanmean().backward()
            model.weight.grad.nan_to_num_()
            model.bias.grad.nan_to_num_()
            optimizer.step()
    harm = {site.op for finding in monitor.findings for site in finding.harm}
    assert "output:ratio" in harm
    assert "output:out" not in harm
    assert {f.reproduced for f in monitor.findings} == {True}


def test_results_are_those_without_a_check() -> None:
    losses = []
    for is_watched in (False, True):
        torch.manual_seed(0)
        model = Masks()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if is_watched:
            numcheck_torch.instrument(model, audit_first=False)
        losses.append([step(model, optimizer, inputs()) for _ in range(3)])
        if is_watched:
            model.numcheck.close()
    assert all(torch.equal(a, b) for a, b in zip(*losses, strict=True))


def test_between_steps_a_check_raises_at_once() -> None:
    model, optimizer, monitor = watched(nn.Linear(4, 3))
    with monitor:
        step(model, optimizer, inputs())
        with pytest.raises(NonFiniteError, match="alone"):
            check_numerics(torch.tensor([float("nan")]), "alone")


def test_after_a_failed_step_a_check_raises_at_once() -> None:
    model, optimizer, monitor = watched(Masks())
    with pytest.raises(NonFiniteError):
        step(model, optimizer, inputs(bad=True))
    with pytest.raises(NonFiniteError, match="alone"):
        check_numerics(torch.tensor([float("nan")]), "alone")
    monitor.close()


def test_a_check_of_a_step_that_never_ends_is_told_at_close() -> None:
    model, _, monitor = watched(Masks(), on_error="record")
    model(inputs(bad=True))
    assert monitor.findings == ()
    monitor.close()
    assert [f.site.op for f in monitor.findings] == ["aten.log.default"]
