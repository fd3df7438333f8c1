# SPDX-License-Identifier: Apache-2.0
"""A compiled program stays compiled, gives the same results, and is seen inside."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch._dynamo.testing
from torch import nn

from numcheck.record import TraceBuilder
from numcheck_torch.compile import observed
from numcheck_torch.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.record import Site
    from numcheck_torch.compile import Observer


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(torch.relu(self.lin(x)))
        return y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.out = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.block(torch.exp(x))
        y: torch.Tensor = self.out(h * h)
        return y


def built() -> tuple[Net, torch.Tensor]:
    torch.manual_seed(0)
    return Net(), torch.randn(5, 4)


def compiled(net: Net, how: str, backend: str) -> Any:
    if how == "wrapped":
        return torch.compile(net, backend=backend)
    if how == "in place":
        net.compile(backend=backend)
    else:
        net.block = torch.compile(net.block, backend=backend)  # type: ignore[assignment]
    return net


def one_step(net: Any, x: torch.Tensor) -> list[torch.Tensor]:
    loss = net(x).square().sum()
    loss.backward()
    found = [loss.detach(), *(p.grad.clone() for p in net.parameters())]
    net.zero_grad()
    return [*found, *(b.clone() for b in net.buffers())]


def recorded(
    net: Any, x: torch.Tensor, observer: Observer, measure: Any = "extremes"
) -> tuple[TraceBuilder, list[torch.Tensor]]:
    builder = TraceBuilder(0)
    recorder = Recorder(builder, modules=net, measure=measure, compiled=observer)
    with recorder:
        recorder.source(x, "input:x", "input")
        found = one_step(net, x)
    recorder.finish()
    return builder, found


@pytest.mark.parametrize(
    ("how", "backend"),
    [
        ("wrapped", "aot_eager"),
        ("in place", "aot_eager"),
        ("a part", "aot_eager"),
    ],
)
def test_results_are_bit_equal_observed_recorded_and_plain(
    how: str, backend: str
) -> None:
    net, x = built()
    plain = one_step(compiled(net, how, backend), x)
    again, x = built()
    watched = compiled(again, how, backend)
    with observed(watched) as observer:
        _, seen = recorded(watched, x, observer)
    assert observer.graphs == 2
    assert observer.notes == []
    for a, b in zip(plain, seen, strict=True):
        assert torch.equal(a, b)


def test_inductors_code_gives_the_same_results_and_its_extremes() -> None:
    linear, x = nn.Linear(4, 2), torch.randn(3, 4)
    net = nn.Sequential(linear, nn.SiLU(), nn.Tanh())
    watched = torch.compile(net, backend="inductor")
    with torch.no_grad():
        plain, dear = watched(x), torch.exp(-linear(x))
        with observed(watched) as observer:
            builder, seen = _forward(watched, x, observer)
    assert torch.equal(seen, plain)
    assert observer.notes == ["notice.fused_otherwise"]
    (tanh,) = [s for s in builder.sites if s.op == "aten.tanh.default"]
    summary = builder.summaries[tanh.index]
    assert (summary.low, summary.high) == (plain.min().item(), plain.max().item())
    (exp,) = [s for s in builder.sites if s.op == "aten.exp.default"]
    summary = builder.summaries[exp.index]
    assert summary.low == pytest.approx(dear.min().item())
    assert summary.high == pytest.approx(dear.max().item())


def operators(builder: TraceBuilder) -> list[Site]:
    return [s for s in builder.sites if s.kind == "operator"]


@pytest.mark.parametrize("how", ["wrapped", "in place", "a part"])
def test_operators_inside_a_graph_have_place_phase_parents_and_extremes(
    how: str,
) -> None:
    net, x = built()
    watched = compiled(net, how, "aot_eager")
    with observed(watched) as observer:
        builder, _ = recorded(watched, x, observer)
    by_op = {(s.op, s.phase): s for s in operators(builder)}
    relu = by_op["aten.relu.default", "forward"]
    _lines, start = inspect.getsourcelines(Block.forward)
    assert relu.source is not None
    assert relu.source.line == start + 1
    assert (relu.scope, relu.scope_type) == ("block", "Block")
    (matmul,) = [builder.sites[p] for p in relu.parents]
    assert (matmul.op, matmul.scope) == ("aten.addmm.default", "block.lin")
    roots = [builder.sites[p].op for p in matmul.parents]
    assert "parameter:block.lin.bias" in roots
    backward = by_op["aten.threshold_backward.default", "backward"]
    assert ("forward_op", "aten.relu.default") in backward.detail
    assert backward.source == relu.source
    h = torch.relu(net.block.lin(x.exp()))
    summary = builder.summaries[relu.index]
    assert summary.n == 20
    assert summary.low == h.min().item()
    assert summary.high == pytest.approx(h.max().item())


def test_the_gradients_path_leads_through_the_graphs_to_the_input() -> None:
    net, x = built()
    watched = compiled(net, "wrapped", "aot_eager")
    with observed(watched) as observer:
        builder = TraceBuilder(0)
        recorder = Recorder(builder, modules=net, measure="extremes", compiled=observer)
        with recorder:
            recorder.source(x, "input:x", "input")
            watched(x).square().sum().backward()
            gradient = net.block.lin.weight.grad
            assert gradient is not None
            kept = recorder.keep(gradient, "gradient:w", "gradient")
        recorder.finish()
    seen, waiting = set(), [kept]
    while waiting:
        site = builder.sites[waiting.pop()]
        if site.index not in seen:
            seen.add(site.index)
            waiting.extend(site.parents)
    ops = {builder.sites[i].op for i in seen}
    assert {"input:x", "aten.exp.default", "aten.ones_like.default"} <= ops
    assert "constant" not in ops


def test_where_a_nan_is_born_inside_a_graph_is_seen() -> None:
    class Root(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(x > 0, torch.sqrt(x - 1.0), x)

    net = torch.compile(Root(), backend="aot_eager")
    x = torch.tensor([0.5, 4.0])
    with observed(net) as observer:
        builder, _ = _forward(net, x, observer)
    bad = [builder.sites[i].op for i, q in builder.summaries.items() if q.has_nan]
    assert bad[0] == "aten.sqrt.default"


def _forward(
    net: Any, x: torch.Tensor, observer: Observer
) -> tuple[TraceBuilder, torch.Tensor]:
    builder = TraceBuilder(0)
    with Recorder(builder, measure="extremes", compiled=observer) as recorder:
        y = net(x)
    recorder.finish()
    return builder, y


def test_shapes_of_a_dynamic_graph_are_those_of_the_run() -> None:
    net = torch.compile(nn.Linear(3, 2), backend="aot_eager", dynamic=True)
    shapes, graphs = [], set()
    with observed(net) as observer:
        for rows in (4, 7):
            builder, _ = _forward(net, torch.ones(rows, 3), observer)
            graphs.add(observer.graphs)
            (site,) = [s for s in builder.sites if s.op == "aten.addmm.default"]
            shapes.append((site.shape, builder.summaries[site.index].n))
    assert shapes == [((4, 2), 8), ((7, 2), 14)]
    assert len(graphs) == 1


def test_a_repeated_step_is_the_step_recorded_anew() -> None:
    net, x = built()
    watched = compiled(net, "wrapped", "aot_eager")
    with observed(watched) as observer:
        recorded(watched, x, observer)
        fresh, _ = recorded(watched, x, observer)
        builder = TraceBuilder(0)
        recorder = Recorder(
            builder, modules=watched, measure="extremes", compiled=observer
        )
        for k in range(3):
            if k:
                builder = TraceBuilder(k)
                recorder.restart(builder)
            with recorder:
                recorder.source(x, "input:x", "input")
                one_step(watched, x)
            recorder.finish()
    assert builder.sites == fresh.sites
    assert builder.summaries.keys() == fresh.summaries.keys()


class Turns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.turn = nn.ModuleList([Block(), Block()]), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.chosen(x)

    @torch.compiler.disable(recursive=False)
    def chosen(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.blocks[self.turn](x)
        return y


def test_layers_that_share_a_graph_are_told_apart_where_they_take_turns() -> None:
    net, x = Turns(), torch.randn(2, 4)
    compiled = torch.compile(net, backend="aot_eager")
    with observed(compiled) as observer:
        recorder = Recorder(
            TraceBuilder(0), modules=net, measure="extremes", compiled=observer
        )
        for k in range(6):
            builder = TraceBuilder(k)
            recorder.restart(builder)
            net.turn = k // 2 % 2
            with recorder:
                compiled(x).sum().backward()
            recorder.finish()
            read = {s.op for s in builder.sites if s.role == "parameter"}
            assert f"parameter:blocks.{net.turn}.lin.weight" in read
            assert f"parameter:blocks.{1 - net.turn}.lin.weight" not in read
    assert observer.graphs == 2


def test_the_users_compiled_code_is_found_again_afterwards() -> None:
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    net, x = built()
    watched = torch.compile(net, backend=counter)
    plain = watched(x)
    assert counter.frame_count == 1
    with observed(watched) as observer:
        watched(x)
        assert observer.graphs == 1
    frames = counter.frame_count
    torch.testing.assert_close(watched(x), plain)
    assert counter.frame_count == frames


def test_a_compiled_call_is_found_inside_what_wraps_it() -> None:
    net, x = built()
    net.compile(backend="aot_eager")
    region, calls = net._compiled_call_impl, []

    @torch.compiler.disable(recursive=False)
    def wrapped(*args: Any) -> Any:
        calls.append(1)
        return region(*args)  # type: ignore[misc]

    net._compiled_call_impl = wrapped
    with observed(net) as observer:
        builder, _ = recorded(net, x, observer)
    assert "aten.relu.default" in {s.op for s in builder.sites}
    assert observer.notes == []
    assert net._compiled_call_impl is wrapped
    net(x)
    assert len(calls) == 2
    assert observer.graphs == 2


def test_a_graph_break_gives_a_graph_on_either_side() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.exp()
            torch._dynamo.graph_break()
            return y.log()

    net = torch.compile(Broken(), backend="aot_eager")
    with observed(net) as observer:
        builder, _ = _forward(net, torch.ones(3), observer)
    ops = [s.op for s in operators(builder)]
    assert ops == ["aten.exp.default", "aten.log.default"]
    log = operators(builder)[1]
    assert builder.sites[log.parents[0]].op == "aten.exp.default"


def test_a_backend_of_its_own_kind_is_noted() -> None:
    net = torch.compile(nn.ReLU(), backend="eager")
    with observed(net) as observer:
        net(torch.ones(2))
    assert observer.graphs == 0
    assert len(observer.notes) == 1
    assert observer.notes[0].startswith("notice.no_graph ")


def test_values_beyond_float32_are_seen_in_float64() -> None:
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 1e200).float()

    net = torch.compile(Square(), backend="aot_eager")
    x = torch.ones(2, dtype=torch.float64)
    with observed(net) as observer:
        builder, _ = _forward(net, x, observer)
    values = [builder.summaries[s.index].high for s in operators(builder)]
    assert values == [1e200, math.inf]


def test_a_full_recording_without_an_observer_opens_compiled_code() -> None:
    net, x = built()
    watched = compiled(net, "in place", "aot_eager")
    builder = TraceBuilder(0)
    with Recorder(builder, modules=net) as recorder:
        watched(x)
    recorder.finish()
    relu = [s for s in builder.sites if s.op == "aten.relu.default"]
    assert [(s.scope, builder.summaries[s.index].n) for s in relu] == [("block", 20)]
