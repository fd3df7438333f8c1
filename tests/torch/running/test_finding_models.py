# SPDX-License-Identifier: Apache-2.0
"""Which modules a program trains, found without being told."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from numcheck.options import Options
from numcheck_torch.running import watching

RECORD = Options(on_error="record", experiments=False)


class Twin(nn.Module):
    """A module whose own call is never made: its parts are called one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.decoder = nn.Linear(8, 4)

    def training_step(self, x: torch.Tensor) -> torch.Tensor:
        return (self.decoder(self.encoder(x)) - x).square().mean()


def train(
    loss_of: object, optimizer: torch.optim.Optimizer, steps: int = 3, bad: int = -1
) -> list[float]:
    torch.manual_seed(1)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(torch.randn(8, 4))  # type: ignore[operator]
        if step == bad:
            loss = torch.log(loss - 1e9)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def sequence() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 1))


def test_the_outermost_module_called_is_watched_from_its_first_call() -> None:
    with watching(RECORD) as monitors:
        model = sequence()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(lambda x: model(x).square().mean(), optimizer, 1, bad=0)
    (monitor,) = monitors
    assert monitor.model is model
    errors = [f for f in monitor.findings if f.severity == "error"]
    assert [(f.step, f.site.op) for f in errors] == [(0, "aten.log.default")]


def test_results_are_those_of_the_program_alone() -> None:
    def program() -> list[float]:
        model = sequence()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        return train(lambda x: model(x).square().mean(), optimizer, steps=5)

    alone = program()
    with watching(RECORD) as monitors:
        watched = program()
    assert watched == alone
    assert len(monitors) == 1


def test_parts_called_one_by_one_are_watched_together() -> None:
    with watching(RECORD) as monitors:
        twin = Twin()
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
        train(twin.training_step, optimizer, bad=2)
    (monitor,) = monitors
    assert {id(p) for p in monitor.model.parameters()} == set(
        map(id, twin.parameters())
    )
    assert [f.step for f in monitor.findings if f.severity == "error"] == [2]


def test_models_of_different_optimizers_have_monitors_of_their_own() -> None:
    with watching(RECORD) as monitors:
        for _ in range(2):
            model = sequence()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            train(lambda x, model=model: model(x).square().mean(), optimizer)
    assert len(monitors) == 2


def test_a_copy_made_before_training_is_not_watched_and_a_copy_of_it_is_plain() -> None:
    with watching(RECORD) as monitors:
        model = sequence()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        average = copy.deepcopy(model)
        average(torch.ones(2, 4)).sum()
        assert not monitors
        train(lambda x: model(x).square().mean(), optimizer)
    assert [monitor.model for monitor in monitors] == [model]
    assert not copy.deepcopy(model)._forward_pre_hooks


def test_no_hook_is_left_behind() -> None:
    model = sequence()
    before = torch.optim.Optimizer.__init__
    with watching(RECORD):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(lambda x: model(x).square().mean(), optimizer)
        other = sequence()
        torch.optim.SGD(other.parameters(), lr=0.1)
    modules = [*model.modules(), *other.modules()]
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in modules)
    assert torch.optim.Optimizer.__init__ is before


@pytest.mark.parametrize("how", ["before", "after", "in place"])
def test_a_compiled_model_is_watched_and_keeps_its_results(how: str) -> None:
    def program() -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        called: nn.Module = model
        if how == "before":
            called = torch.compile(model, backend="aot_eager")  # type: ignore[assignment]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if how == "after":
            called = torch.compile(model, backend="aot_eager")  # type: ignore[assignment]
        elif how == "in place":
            model.compile(backend="aot_eager")
        return train(lambda x: called(x).square().mean(), optimizer)

    alone = program()
    torch.compiler.reset()
    with watching(RECORD) as monitors:
        watched = program()
    torch.compiler.reset()
    assert watched == alone
    (monitor,) = monitors
    assert monitor.step == 3
