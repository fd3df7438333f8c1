# SPDX-License-Identifier: Apache-2.0
"""Without waiting for the device, the same failures are found one step later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import torch
from torch import nn

import numcheck_torch
from numcheck import NonFiniteError
from numcheck.errors import ArgumentError
from numcheck_torch import looking, sentinel
from tests.torch.watch.loops import Breaks, inputs, square, train, watched

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIMIZERS = [
    lambda p: torch.optim.SGD(p, lr=0.1),
    lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
]


@pytest.mark.parametrize("make", OPTIMIZERS, ids=["sgd", "fused"])
@pytest.mark.parametrize("steps", [3, 4], ids=["at the end", "at the next step"])
def test_the_step_that_broke_is_told_one_later(
    make: Callable[[Any], torch.optim.Optimizer], steps: int
) -> None:
    torch.manual_seed(0)
    model = numcheck_torch.instrument(Breaks(), audit_first=False, sync=False)
    optimizer, monitor = make(model.parameters()), model.numcheck
    with pytest.raises(NonFiniteError) as caught, monitor:
        train(model, optimizer, bad_steps=(2,), steps=steps)
    finding = caught.value.finding
    assert finding.site.op == "aten.log.default"
    assert finding.step == 2


def test_a_bad_loss_whose_gradients_are_finite_is_told_of_its_own_step() -> None:
    class Offset(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) + torch.log(x[:, :1]).detach()

    model, optimizer, monitor = watched(Offset(), audit_first=False, sync=False)
    with pytest.raises(NonFiniteError) as caught, monitor:
        train(model, optimizer, (1,), steps=3, loss_fn=torch.sum)
    assert (caught.value.finding.step, caught.value.finding.site.op) == (
        1,
        "aten.log.default",
    )


def test_values_and_history_are_those_of_a_run_that_waits() -> None:
    results, histories = [], []
    for sync in (True, False):
        torch.manual_seed(0)
        model, optimizer, monitor = watched(nn.Linear(4, 3), sync=sync)
        train(model, optimizer, bad_steps=())
        monitor.close()
        results.append([p.detach().clone() for p in model.parameters()])
        histories.append(
            sorted(
                (e.step, e.name, e.value)
                for e in monitor.events
                if e.name in ("loss", "gradient_norm", "learning_rate")
            )
        )
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert histories[0] == histories[1]
    assert len(histories[0]) == 12


def test_a_finite_gradient_with_an_infinite_norm_is_no_failure() -> None:
    model, optimizer, monitor = watched(nn.Linear(4, 3), audit_first=False, sync=False)
    optimizer.param_groups[0]["lr"] = 1e-30
    with monitor:
        for _ in range(3):
            optimizer.zero_grad()
            (model(inputs()).sum() * 1e25).backward()
            optimizer.step()
    assert monitor.findings == ()


def test_a_value_checked_by_hand_is_told_with_its_step() -> None:
    model, optimizer, monitor = watched(nn.Linear(4, 3), audit_first=False, sync=False)
    steps = iter(range(3))

    def loss_fn(out: torch.Tensor) -> torch.Tensor:
        numcheck_torch.check_numerics(out.detach() / (next(steps) - 1), "hidden")
        return square(out)

    with pytest.raises(NonFiniteError, match="hidden") as caught, monitor:
        train(model, optimizer, (), steps=3, loss_fn=loss_fn)
    assert caught.value.finding.step == 1


def test_nothing_is_read_before_the_next_step() -> None:
    model, optimizer, monitor = watched(nn.Linear(4, 3), audit_first=False, sync=False)
    with (
        mock.patch.object(sentinel, "_read", wraps=sentinel._read) as read,
        mock.patch.object(looking, "at_a_glance", return_value=None) as glance,
    ):
        train(model, optimizer, bad_steps=())
    assert read.call_count == glance.call_count == 0
    monitor.close()


def test_a_step_to_be_skipped_has_to_be_known_before_its_update() -> None:
    with pytest.raises(ArgumentError, match="sync=False tells after it"):
        numcheck_torch.instrument(nn.Linear(2, 1), on_error="skip", sync=False)
