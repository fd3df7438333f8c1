# SPDX-License-Identifier: Apache-2.0
"""Losses of modules whose calls nobody hears, or that nothing can look into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.utils._python_dispatch import _disable_current_modes

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


@pytest.mark.parametrize("step", [0, 2])
def test_a_bad_loss_of_what_a_generator_yielded_is_found(step: int) -> None:
    model = Yielding()

    def loss(*, bad: bool) -> torch.Tensor:
        outputs = torch.stack([*model(torch.rand(3, 4))])
        return outputs.square().mean() + shift(bad=bad)

    (finding,) = trained(model, loss, bad_step=step).findings
    assert (finding.site.op, finding.step, finding.severity) == ("loss", step, "error")


@pytest.mark.parametrize("step", [0, 2])
def test_a_bad_loss_of_a_step_that_is_compiled_as_a_whole_is_found(step: int) -> None:
    model = nn.Linear(4, 1)

    @torch.compile(backend="eager")
    def compiled(x: torch.Tensor, constant: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(x).square().mean() + constant
        return loss

    def loss(*, bad: bool) -> torch.Tensor:
        found: torch.Tensor = compiled(torch.rand(3, 4), shift(bad=bad))
        return found

    (finding,) = trained(model, loss, bad_step=step).findings
    assert (finding.site.op, finding.step, finding.severity) == ("loss", step, "error")


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


class Subclass(torch.Tensor):
    """Any class of the user's own."""


def of_a_subclass(out: torch.Tensor, constant: torch.Tensor) -> torch.Tensor:
    return (out.as_subclass(Subclass).square() - constant).sqrt().mean()


def unseen(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
    """Compile to what no dispatch mode sees inside of, as kernels are."""

    def run(*args: Any) -> Any:
        with _disable_current_modes():
            return graph(*args)

    boxed: Callable[..., Any] = make_boxed_func(run)
    return boxed


def compiled() -> Callable[..., torch.Tensor]:
    return torch.compile(
        lambda out, constant: (out.square() - constant).sqrt().mean(),
        backend=aot_autograd(fw_compiler=unseen),
    )


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("kind", ["subclass", "compiled"])
def test_a_loss_that_hides_its_operators_says_so_and_watch_shows_them(
    kind: str,
) -> None:
    loss_fn = of_a_subclass if kind == "subclass" else compiled()
    model = nn.Linear(4, 1)

    def loss(*, bad: bool) -> torch.Tensor:
        return loss_fn(model(torch.rand(3, 4)), torch.tensor(10.0 if bad else 0.0))

    monitor = trained(model, loss, bad_step=3)
    (finding,) = monitor.findings
    assert (finding.id, finding.site.op, finding.step) == ("N903", "loss", 3)
    notes = [str(e.value) for e in monitor.events if e.name == "note"]
    assert any("refusal.loss_hidden" in note for note in notes)

    model = numcheck_torch.instrument(nn.Linear(4, 1), on_error="record")
    shown: Any = cast("TorchMonitor", model.numcheck).watch(loss_fn)
    shown(model(torch.rand(3, 4)), torch.tensor(10.0)).backward()
    (finding,) = cast("TorchMonitor", model.numcheck).findings
    assert (finding.site.op, finding.reproduced) == ("aten.sqrt.default", True)
