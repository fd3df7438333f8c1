# SPDX-License-Identifier: Apache-2.0
"""Compiled modules: recorded as they run, and asked where a replay disagrees."""

from __future__ import annotations

import collections
import inspect
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

import numcheck_torch
from numcheck import NonFiniteError
from numcheck_torch.dataflow import Memory
from tests.torch.watch.loops import inputs, train, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(x)) + 0 * torch.log(x[:, :1] * 0 + 1)


TANH = inspect.getsourcelines(Net.forward)[1] + 1


def replacing(operator: Any, other: Callable[..., Any]) -> Any:
    """Return a backend that computes another function in an operator's place."""

    def compiler(graph: torch.fx.GraphModule, _: object) -> Any:
        for node in graph.graph.nodes:
            if node.target is operator:
                node.target = other
        graph.recompile()
        return make_boxed_func(graph.forward)

    return aot_autograd(fw_compiler=compiler)


def ways(model: nn.Module, how: str, backend: Any) -> nn.Module:
    if how == "wrapped":
        return torch.compile(model, backend=backend)
    model.compile(backend=backend)
    return model


@pytest.mark.parametrize("how", ["wrapped", "in place", "wrapped afterwards"])
def test_trace_level_records_inside_compiled_code(how: str) -> None:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options: Any = {"level": "trace", "audit_first": False}
    if how == "wrapped afterwards":
        numcheck_torch.instrument(model, **options)
        called = torch.compile(model, backend="aot_eager")
    else:
        called = numcheck_torch.instrument(ways(model, how, "aot_eager"), **options)
    monitor = called.numcheck
    train(called, optimizer, bad_steps=(), steps=3)
    monitor.close()
    assert monitor.trace.steps == (0, 1, 2)
    tanh = [s for s in monitor.trace.sites if s.op == "aten.tanh.default"]
    assert [(s.phase, s.source.line) for s in tanh] == [("forward", TANH)]
    for step in monitor.trace.steps:
        held = monitor.trace.at(step).summary(tanh[0])
        assert -1 <= held.low <= held.high <= 1
    phases = {s.phase for s in monitor.trace.sites if s.kind == "operator"}
    assert {"forward", "backward", "optimizer"} <= phases


def test_results_of_a_recorded_compiled_module_are_the_plain_ones() -> None:
    results = []
    for level in (None, "trace"):
        torch._dynamo.reset()
        torch.manual_seed(2)
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters())
        called = torch.compile(model, backend="aot_eager")
        if level is not None:
            numcheck_torch.instrument(called, level=level, audit_first=False)
        train(called, optimizer, bad_steps=())
        results.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("how", ["wrapped", "in place"])
def test_a_fault_of_compiled_code_alone_is_found_there(how: str) -> None:
    backend = replacing(
        torch.ops.aten.tanh.default, lambda x: torch.log(x.abs() * 0 - 1)
    )
    model = ways(Net(), how, backend)
    model, optimizer, monitor = watched(model, audit_first=False)
    with pytest.raises(NonFiniteError) as caught:
        train(model, optimizer, bad_steps=(), steps=1)
    finding = caught.value.finding
    assert finding.site.op == "aten.tanh.default"
    assert finding.site.source.line == TANH
    assert finding.reproduced is False
    notes = [e.value for e in monitor.events if e.name == "note"]
    assert "notice.compiled_fails" in notes


@pytest.mark.parametrize("how", ["wrapped", "in place"])
def test_each_of_several_compiled_modules_is_recorded_under_its_own_name(
    how: str,
) -> None:
    first, second = Net(), nn.Sequential(nn.Linear(4, 2), nn.Sigmoid())
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    front, back = ways(first, how, "aot_eager"), ways(second, how, "aot_eager")

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = front(x).square().mean() + back(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    watching = numcheck_torch.instrument(step, level="trace", audit_first=False)
    for _ in range(2):
        watching(inputs())
    monitor = watching.numcheck
    monitor.close()
    found = {s.op: s.scope for s in monitor.trace.sites if s.phase == "forward"}
    assert found["aten.tanh.default"] == "front"
    assert found["aten.sigmoid.default"].startswith("back")


def test_a_recording_that_dies_inside_a_compiled_program_is_no_part_of_it() -> None:
    left = [Memory()]
    left[0].expect(torch.ones(3), "input:x", "input")

    @torch.compile(backend="eager")
    def program(x: torch.Tensor) -> torch.Tensor:
        left.clear()
        return x.tanh()

    before = collections.Counter(torch._dynamo.utils.counters["frames"])
    program(torch.ones(2))
    assert not left
    compiled = torch._dynamo.utils.counters["frames"] - before
    assert compiled == {"total": 1, "ok": 1}


def test_what_compiled_code_hides_is_a_note() -> None:
    class Hides(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) + torch.log(x[:, :1])

    backend = replacing(torch.ops.aten.log.default, torch.tanh)
    model = torch.compile(Hides(), backend=backend)
    model, optimizer, monitor = watched(model)
    with monitor:
        optimizer.zero_grad()
        loss = model(inputs(bad=True)).square().mean()
        loss.backward()
        optimizer.step()
    assert math.isfinite(loss.item())
    assert {f.severity for f in monitor.findings} == {"note"}
    assert "aten.log.default" in {f.site.op for f in monitor.findings}
    notes = [e.value for e in monitor.events if e.name == "note"]
    assert "notice.eager_fails" in notes
