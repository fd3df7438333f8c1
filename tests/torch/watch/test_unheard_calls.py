# SPDX-License-Identifier: Apache-2.0
"""Losses of modules whose calls nobody hears, or that nothing can look into."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
import torch
from torch import nn

import numcheck_torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numcheck_torch.monitor import TorchMonitor


class Yielding(nn.Module):
    """Returns a generator."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        for _ in range(2):
            yield self.layer(x)


def shift(*, bad: bool) -> torch.Tensor:
    """Return what makes a loss NaN and leaves its gradients finite."""
    return torch.log(torch.tensor(-1.0 if bad else 1.0))


def trained(
    model: nn.Module, loss_of: Callable[..., torch.Tensor], *, bad_step: int = 2
) -> TorchMonitor:
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    numcheck_torch.instrument(model, optimizer, on_error="record")
    for step in range(4):
        optimizer.zero_grad()
        loss_of(bad=step == bad_step).backward()
        optimizer.step()
    monitor = cast("TorchMonitor", model.numcheck)
    monitor.close()
    assert not [e for e in monitor.events if e.name == "fault"]
    return monitor


def test_a_bad_loss_of_what_a_generator_yielded_is_found() -> None:
    model = Yielding()

    def loss(*, bad: bool) -> torch.Tensor:
        outputs = torch.stack([*model(torch.rand(3, 4))])
        return outputs.square().mean() + shift(bad=bad)

    (finding,) = trained(model, loss).findings
    assert (finding.site.op, finding.step, finding.severity) == ("loss", 2, "error")


def test_a_bad_loss_of_a_step_that_is_compiled_as_a_whole_is_found() -> None:
    model = nn.Linear(4, 1)

    @torch.compile(backend="eager")
    def compiled(x: torch.Tensor, constant: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(x).square().mean() + constant
        return loss

    def loss(*, bad: bool) -> torch.Tensor:
        found: torch.Tensor = compiled(torch.rand(3, 4), shift(bad=bad))
        return found

    (finding,) = trained(model, loss).findings
    assert (finding.site.op, finding.step, finding.severity) == ("loss", 2, "error")


def test_the_loss_of_another_model_is_not_taken_for_that_of_an_unheard_one() -> None:
    model, other = Yielding(), nn.Linear(4, 1)

    def loss(*, bad: bool) -> torch.Tensor:
        (other(torch.rand(3, 4)).sum() + shift(bad=bad)).backward()
        return torch.stack([*model(torch.rand(3, 4))]).square().mean()

    assert trained(model, loss).findings == ()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_bad_loss_of_strided_nested_tensors_is_found_and_said_to_be_closed() -> None:
    model = nn.Linear(4, 4)

    def loss(*, bad: bool) -> torch.Tensor:
        batch = torch.nested.nested_tensor([torch.rand(2, 4), torch.rand(3, 4)])
        padded = torch.nested.to_padded_tensor(model(batch), 0.0)
        found: torch.Tensor = padded.square().mean() + shift(bad=bad)
        return found

    monitor = trained(model, loss)
    (finding,) = monitor.findings
    assert (finding.site.op, finding.step, finding.severity) == ("loss", 2, "error")
    notes = [str(e.value) for e in monitor.events if e.name == "note"]
    assert any("not_replayed" in n and "refusal.nested" in n for n in notes)
