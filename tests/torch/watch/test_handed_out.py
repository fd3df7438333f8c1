# SPDX-License-Identifier: Apache-2.0
"""Updates written by hand, with gradients that the engine hands out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad

import numcheck_torch
from numcheck import NonFiniteError
from numcheck_torch import sentinel
from tests.torch.watch.loops import Breaks, inputs, square

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numcheck_torch.monitor import TorchMonitor


def update(model: nn.Module, gradients: Sequence[torch.Tensor]) -> None:
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.sub_(gradient, alpha=0.1)


def broken_gradient(out: torch.Tensor) -> torch.Tensor:
    return square(out) + (out[0, 0] * 0).sqrt()


def step(model: nn.Module, *, bad: bool = False, uses: bool = True) -> None:
    out = model(inputs())
    loss = broken_gradient(out) if bad else square(out)
    gradients = torch.autograd.grad(loss, [*model.parameters()])
    if uses:
        update(model, gradients)


def linear() -> tuple[nn.Module, TorchMonitor]:
    torch.manual_seed(0)
    model = numcheck_torch.instrument(nn.Linear(4, 3), on_error="record")
    monitor: Any = model.numcheck
    return model, monitor


def test_bad_loss_is_raised_before_an_update_by_hand() -> None:
    torch.manual_seed(0)
    model = numcheck_torch.instrument(Breaks())
    step(model)
    before = model.layer.weight.detach().clone()
    loss = square(model(inputs(bad=True)))
    with pytest.raises(NonFiniteError) as caught:
        torch.autograd.grad(loss, [*model.parameters()])
    assert caught.value.finding.site.op == "aten.log.default"
    assert caught.value.finding.step == 1
    assert caught.value.finding.reproduced is True
    assert torch.equal(model.layer.weight, before)


@pytest.mark.parametrize("further", [0, 1])
def test_bad_gradient_is_told_when_an_update_by_hand_used_it(further: int) -> None:
    model, monitor = linear()
    step(model)
    step(model, bad=True)
    assert not monitor.findings
    weight = next(model.parameters())
    after = weight.detach().clone()
    for _ in range(further):
        model(inputs())
    monitor.close()
    first = monitor.findings[0]
    assert (first.phase, first.step, first.severity) == ("backward", 1, "error")
    assert first.reproduced is True
    assert first.site.source is not None
    assert "sqrt" in first.site.source.text
    assert torch.equal(weight.isnan(), after.isnan())


def test_bad_gradient_that_is_thrown_away_is_no_fault() -> None:
    model, monitor = linear()
    step(model, bad=True, uses=False)
    step(model)
    step(model, bad=True, uses=False)
    monitor.close()
    assert monitor.findings == ()


def test_healthy_updates_by_hand_are_steps_with_one_look_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, monitor = linear()
    step(model)
    looks: list[int] = []
    read = sentinel._read

    def counted(scalars: list[torch.Tensor]) -> list[float]:
        looks.append(len(scalars))
        return read(scalars)

    monkeypatch.setattr(sentinel, "_read", counted)
    for _ in range(3):
        step(model)
    assert (len(looks), monitor.step) == (3, 4)
    monitor.close()
    assert monitor.findings == ()


def test_inner_gradients_are_no_updates() -> None:
    model, monitor = linear()
    parameters = [*model.parameters()]
    x = inputs().requires_grad_()
    # Of the input; as a penalty; of an inner step; of a function.
    torch.autograd.grad(broken_gradient(model(x)), x)
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    penalised = square(model(x)) + slope.norm()
    inner = torch.autograd.grad(penalised, parameters, create_graph=True)
    names = [name for name, _ in model.named_parameters()]
    fast = {n: p - 0.1 * g for n, p, g in zip(names, parameters, inner, strict=True)}
    outer = square(functional_call(model, fast, (inputs(),)))
    assert monitor.step == 0
    update(model, torch.autograd.grad(outer, parameters))
    held = {n: p.detach() for n, p in model.named_parameters()}
    grad(lambda p: broken_gradient(functional_call(model, p, (inputs(),))))(held)
    monitor.close()
    assert monitor.findings == ()
    assert not [e for e in monitor.events if e.name == "fault"]


def one_gradient_at_a_time(model: nn.Module) -> None:
    loss = model(torch.ones(4, 3)).square().mean()
    own = list(model.parameters())
    found = [torch.autograd.grad(loss, p, retain_graph=True)[0] for p in own]
    with torch.no_grad():
        for parameter, gradient in zip(own, found, strict=True):
            parameter.sub_(gradient, alpha=0.1)


def only_called(model: nn.Module) -> None:
    model(torch.ones(4, 3)).square().mean()


@pytest.mark.parametrize(
    ("step", "told"),
    [(one_gradient_at_a_time, ["notice.update_unheard"]), (only_called, [])],
)
def test_a_training_of_which_no_step_was_heard_is_told_at_the_end(
    step: Callable[[nn.Module], None], told: list[str]
) -> None:
    model = numcheck_torch.instrument(nn.Linear(3, 2))
    step(model)
    step(model)
    model.numcheck.close()
    assert [e.value for e in model.numcheck.events if e.name == "note"] == told


@pytest.mark.parametrize("layer", [nn.Linear, nn.LazyLinear])
def test_parameters_that_get_their_values_later_are_no_training(layer: Any) -> None:
    arguments = (3, 2) if layer is nn.Linear else (2,)
    model = numcheck_torch.instrument(layer(*arguments))
    with torch.no_grad():
        model(torch.ones(1, 3))
    model.load_state_dict(nn.Linear(3, 2).state_dict())
    model.numcheck.close()
    assert not [e for e in model.numcheck.events if e.name == "note"]
