# SPDX-License-Identifier: Apache-2.0
"""A whole step, given as a plain function, is watched through what it reaches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import numcheck
import numcheck_torch
from numcheck import NonFiniteError
from numcheck.errors import ArgumentError
from numcheck_torch.reach import modules_of
from tests.torch.watch.loops import Breaks, inputs, square

model_at_module_level = nn.Linear(2, 2)


def uses_a_global(x: torch.Tensor) -> torch.Tensor:
    return model_at_module_level(x)


def uses_a_helper(x: torch.Tensor) -> torch.Tensor:
    return uses_a_global(x)


class Trainer:
    def __init__(self) -> None:
        self.models = {"net": Breaks()}
        self.optimizer = torch.optim.SGD(self.models["net"].parameters(), lr=0.1)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = square(self.models["net"](x))
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def closure() -> Any:
    model = Breaks()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train_step(x: torch.Tensor) -> torch.Tensor:
        """Make one step."""
        optimizer.zero_grad()
        loss = square(model(x))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return train_step


@pytest.mark.parametrize("make", [closure, lambda: Trainer().step])
def test_failing_step_raises_from_the_call(make: Any) -> None:
    step = numcheck_torch.instrument(make())
    step(inputs())
    with pytest.raises(NonFiniteError) as caught:
        step(inputs(bad=True))
    assert caught.value.finding.site.op == "aten.log.default"
    assert caught.value.finding.step == 1
    assert step.numcheck.findings == caught.value.findings


def test_results_and_name_are_the_function_s() -> None:
    torch.manual_seed(0)
    plain = closure()
    torch.manual_seed(0)
    step = numcheck_torch.instrument(closure())
    assert all(torch.equal(plain(inputs()), step(inputs())) for _ in range(3))
    assert (step.__name__, step.__doc__) == ("train_step", "Make one step.")


def test_modules_among_the_arguments_are_found_at_the_first_call() -> None:
    def train_step(model: nn.Module, optimizer: Any, x: torch.Tensor) -> None:
        optimizer.zero_grad()
        square(model(x)).backward()
        optimizer.step()

    step = numcheck.instrument(train_step)
    model = Breaks()
    optimizer = torch.optim.Adam(model.parameters())
    step(model, optimizer, inputs())
    with pytest.raises(NonFiniteError):
        step(model, optimizer, inputs(bad=True))
    assert step.numcheck.optimizers == (optimizer,)


def test_update_written_by_hand_is_preceded_by_the_look() -> None:
    model = Breaks()

    def train_step(x: torch.Tensor) -> None:
        square(model(x)).backward()
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(0.1 * p.grad)
                p.grad = None

    step = numcheck_torch.instrument(train_step)
    step(inputs())
    with pytest.raises(NonFiniteError) as caught:
        step(inputs(bad=True))
    assert caught.value.finding.step == 1
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())


def test_several_modules_of_one_loss_are_watched_together() -> None:
    encoder, decoder = nn.Linear(4, 3), Breaks()
    decoder.layer = nn.Linear(3, 2)
    both = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.SGD(both, lr=0.1)

    def train_step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        hidden = encoder(x).relu() * (x[:, :1] > 0)
        square(decoder(hidden)).backward()
        optimizer.step()

    with torch.no_grad():
        encoder.weight.zero_()
        encoder.bias.fill_(1.0)
    step = numcheck_torch.instrument(train_step)
    step(inputs())
    with pytest.raises(NonFiniteError) as caught:
        step(inputs(bad=True))
    names = {s.op for s in step.numcheck.laboratory(with_update=False).replay().sites}
    assert {"gradient:encoder.weight", "gradient:decoder.layer.bias"} <= names
    assert caught.value.finding.site.scope == "decoder"


def test_function_without_a_module_says_what_to_do() -> None:
    step = numcheck_torch.instrument(lambda x: x + 1)
    with pytest.raises(ArgumentError, match=r"no torch\.nn\.Module"):
        step(torch.ones(1))


@pytest.mark.parametrize("function", [uses_a_global, uses_a_helper])
def test_modules_behind_globals_are_reached(function: Any) -> None:
    found = modules_of(function, (), {})
    assert found == {"model_at_module_level": model_at_module_level}


def test_loss_module_without_parameters_is_not_watched() -> None:
    model, criterion = nn.Linear(2, 1), nn.MSELoss()
    found = modules_of(lambda x: criterion(model(x), x), (), {})
    assert list(found.values()) == [model]
