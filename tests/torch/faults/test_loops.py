# SPDX-License-Identifier: Apache-2.0
"""A step that breaks is told once and rightly, whatever the loop around it is."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as fn

import numcheck_torch
from tests.torch.identity.further_programs import DropsLayers, WithLoss
from tests.torch.identity.programs import Adversaries, batch, labels, mlp

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding
    from numcheck_torch.monitor import TorchMonitor

BAD, STEPS = 2, 4


def watched(model: nn.Module) -> TorchMonitor:
    torch.manual_seed(0)
    options: Any = {"on_error": "record", "audit_first": False, "experiments": False}
    return numcheck_torch.instrument(model, **options).numcheck


def broken(loss: torch.Tensor, step: int) -> torch.Tensor:
    return torch.log(loss * 0) if step == BAD else loss  # the origin


def first_of(monitor: TorchMonitor) -> Finding:
    """Return the finding, once it is known that nothing else was blamed."""
    monitor.close()
    (found,) = [f for f in monitor.findings if f.severity == "error"]
    assert found.site.source is not None
    assert "# the origin" in found.site.source.text
    return found


def assert_log(found: Finding, step: int = BAD) -> None:
    assert (found.site.op, found.phase) == ("aten.log.default", "forward")
    assert (found.step, found.reproduced) == (step, True)


def test_two_optimizers_in_turn_break_in_the_first_half() -> None:
    assert_log(first_of(adversaries(in_first=True)))


def test_two_optimizers_in_turn_break_in_the_second_half() -> None:
    assert_log(first_of(adversaries(in_first=False)))


def adversaries(*, in_first: bool) -> TorchMonitor:
    model = Adversaries()
    monitor = watched(model)
    critic = torch.optim.SGD(model.critic.parameters(), lr=1e-2)
    generator = torch.optim.Adam(model.generator.parameters(), lr=1e-2)
    for step in range(STEPS):
        critic.zero_grad()
        fake, real = model(batch(step, 4), batch(step, 5))
        loss = fn.softplus(fake).mean() + fn.softplus(-real).mean()
        (broken(loss, step) if in_first else loss).backward()
        critic.step()
        generator.zero_grad()
        loss = fn.softplus(-model(batch(step, 4), batch(step, 5))[0]).mean()
        (loss if in_first else broken(loss, step)).backward()
        generator.step()
    return monitor


def test_updates_made_in_the_backward() -> None:
    model = mlp()
    monitor = watched(model)
    own = {p: torch.optim.SGD([p], lr=0.05) for p in model.parameters()}

    def update(parameter: torch.Tensor) -> None:
        own[parameter].step()
        own[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    for step in range(STEPS):
        loss = fn.cross_entropy(model(batch(step, 5)), labels(step, 3))
        broken(loss, step).backward()
    assert_log(first_of(monitor))


def test_a_loss_inside_a_dictionary() -> None:
    model = WithLoss()
    monitor = watched(model)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        out = model(labels(step, 11, 7), target=labels(step + 9, 11, 7))
        broken(out["loss"], step).backward()
        optimizer.step()
    assert_log(first_of(monitor))


def test_a_closure_that_breaks_in_a_later_evaluation() -> None:
    model = mlp(5, 1)
    monitor = watched(model)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    evaluated: list[int] = []

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        evaluated.append(len(evaluated))
        is_bad = BAD if evaluated[-1] == 6 else 0
        loss = broken(fn.mse_loss(model(batch(0, 5)), batch(0, 1)), is_bad)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    assert_log(first_of(monitor), step=1)


def test_a_module_that_draws_from_the_generator_of_python() -> None:
    taken: list[str] = []
    note = taken.append  # a replay would leave the list itself as it was

    class Draws(DropsLayers):
        def forward(self, x: torch.Tensor, step: int = 0) -> torch.Tensor:
            h = super().forward(x)
            if step < BAD:
                return h
            name = random.choice(["log", "rsqrt", "reciprocal"])
            note(name)
            return getattr(torch, name)(h * 0)  # the origin

    model = Draws()
    monitor = watched(model)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(BAD + 1):
        optimizer.zero_grad()
        fn.cross_entropy(model(batch(step, 5), step), labels(step, 3)).backward()
        optimizer.step()
    found = first_of(monitor)
    assert found.site.op == f"aten.{taken[0]}.default"
    assert set(taken) == {taken[0]}
    assert len(taken) > 1


def test_parts_called_without_the_whole_are_told_of_and_looked_at() -> None:
    model = nn.ModuleDict({"encoder": mlp(5, 6), "head": mlp(6, 3)})
    monitor = watched(model)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        out = model["head"](model["encoder"](batch(step, 5)))
        broken(fn.cross_entropy(out, labels(step, 3)), step).backward()
        optimizer.step()
    monitor.close()
    found = monitor.findings[0]
    assert (found.step, found.site.role, found.reproduced) == (BAD, "loss", None)
    notes = [str(e.value) for e in monitor.events if e.name == "note"]
    assert notes[0] == "notice.uncalled"
