# SPDX-License-Identifier: Apache-2.0
"""Level ``anchors``: products and module outputs at every step, and nothing else."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn

import numcheck_torch
from numcheck import NonFiniteError
from numcheck_torch.anchors import Anchors
from tests.torch.identity.programs import build
from tests.torch.watch.loops import inputs, train, watched


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 2)
        self.act = nn.ReLU(inplace=True)
        self.seen: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        self.seen.append(h.detach().clone())
        h = self.act(h)
        self.seen.append(h.detach().clone())
        return self.last(h).exp()


def trained(steps: int = 3) -> Any:
    model, optimizer, monitor = watched(Net(), level="anchors", audit_first=False)
    train(model, optimizer, bad_steps=(), steps=steps)
    monitor.close()
    return model, monitor.trace


def test_products_and_module_outputs_are_recorded_and_nothing_else() -> None:
    _, trace = trained()
    assert trace.steps == (0, 1, 2)
    found = [(s.op, s.scope, s.phase) for s in trace.sites]
    assert found == [
        ("aten.addmm.default", "first", "forward"),
        ("module.Linear", "first", "forward"),
        ("module.ReLU", "act", "forward"),
        ("aten.addmm.default", "last", "forward"),
        ("module.Linear", "last", "forward"),
        ("module.Net", "", "forward"),
        ("aten.mm.default", "last", "backward"),
        ("aten.mm.default", "last", "backward"),
        ("aten.mm.default", "first", "backward"),
        ("loss", "", "forward"),
    ]


def test_extremes_are_those_of_the_values_at_every_step() -> None:
    model, trace = trained()
    places = {(s.op, s.scope): s for s in trace.sites}
    for step in trace.steps:
        product, activated = model.seen[2 * step : 2 * step + 2]
        for key, value in {
            ("module.Linear", "first"): product,
            ("aten.addmm.default", "first"): product,
            ("module.ReLU", "act"): activated,
        }.items():
            held = trace.at(step).summary(places[key])
            assert (held.low, held.high) == (value.min().item(), value.max().item())


def test_a_step_that_breaks_is_found_as_in_watch_level() -> None:
    model, optimizer, monitor = watched(level="anchors")
    with pytest.raises(NonFiniteError) as caught:
        train(model, optimizer, bad_steps=(2,))
    assert caught.value.finding.site.op == "aten.log.default"
    assert monitor.trace.steps == (0, 1, 2)


@pytest.mark.parametrize("name", ["MLP", "transformer with dropout"])
def test_no_result_changes(name: str) -> None:
    results = []
    for level in ("watch", "anchors"):
        program = build(name)
        numcheck_torch.instrument(program.model, level=level, audit_first=False)
        torch.manual_seed(5)
        losses = []
        for step in range(3):
            losses.append(program.compute(program.model, step))
            program.update()
        program.model.numcheck.close()
        results.append((losses, list(program.model.state_dict().values())))
    (a, b), (c, d) = results
    assert all(torch.equal(x, y) for x, y in zip([*a, *b], [*c, *d], strict=True))


def test_a_checkpointed_part_shows_its_recomputation() -> None:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)

    model, optimizer, monitor = watched(Part(), level="anchors", audit_first=False)
    with monitor:
        optimizer.zero_grad()
        model(inputs()).square().mean().backward()
        optimizer.step()
    phases = {s.phase for s in monitor.trace.sites if s.scope == "inner.0"}
    assert phases == {"forward", "recompute", "backward"}


def test_memory_that_is_used_again_holds_another_value() -> None:
    log, meter = mock.MagicMock(), mock.MagicMock()
    anchors = Anchors(log, meter, None)
    used_again = 0
    for _ in range(100):
        made = torch.ones(4096)
        address = made.data_ptr()
        anchors.measured(0, made)
        del made
        other = torch.zeros(4096)
        used_again += other.data_ptr() == address
        anchors.left(("norm", "LayerNorm"), other)
        assert log.anchor.call_args.args[1] is None
    assert used_again > 0
    anchors.measured(0, made := torch.ones(4096))
    anchors.left(("linear", "Linear"), made)
    assert log.anchor.call_args.args[1] == 0
