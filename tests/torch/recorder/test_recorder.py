# SPDX-License-Identifier: Apache-2.0
"""A recorder sees every operator, and changes nothing."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from numcheck.record import TraceBuilder
from numcheck_torch.recorder import Recorder

if TYPE_CHECKING:
    from numcheck.measure.summary import Summary
    from numcheck.record import Site

Measure = Literal["full", "extremes"]
MEASURES: list[Measure] = ["full", "extremes"]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.norm(self.first(x)))
        h = torch.dropout(h, 0.3, True)
        return self.last(h)  # the line of last


def seeded() -> tuple[Net, torch.optim.Optimizer, torch.Tensor]:
    torch.manual_seed(0)
    net = Net()
    return (
        net,
        torch.optim.AdamW(net.parameters(), 0.1, foreach=True),
        torch.randn(16, 4),
    )


def one_step(
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: torch.Tensor,
    recorder: Recorder | None = None,
) -> torch.Tensor:
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    if recorder is None:
        optimizer.step()
    else:
        with recorder.phase("optimizer"):
            optimizer.step()
    return loss


def recorded(measure: Measure = "full") -> tuple[TraceBuilder, Net]:
    net, optimizer, x = seeded()
    builder = TraceBuilder(step=0)
    with Recorder(builder, modules=net, measure=measure) as recorder:
        recorder.source(x, "input:x", "input")
        one_step(net, optimizer, x, recorder)
    recorder.finish()
    return builder, net


def only(builder: TraceBuilder, op: str, phase: str | None = None) -> Site:
    (site,) = [
        s for s in builder.sites if s.op == op and (phase is None or s.phase == phase)
    ]
    return site


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "autocast"])
def test_results_are_bit_equal_with_and_without_a_recorder(
    measure: Measure, autocast: bool
) -> None:
    results = []
    for watched in (False, True):
        net, optimizer, x = seeded()
        losses = []
        for step in range(3):
            recorder = Recorder(TraceBuilder(step), modules=net, measure=measure)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                if watched:
                    with recorder:
                        losses.append(one_step(net, optimizer, x, recorder))
                    recorder.finish()
                else:
                    losses.append(one_step(net, optimizer, x))
        results.append([*losses, *net.state_dict().values(), torch.get_rng_state()])
    for plain, watched_value in zip(*results, strict=True):
        assert torch.equal(plain, watched_value)


def test_every_phase_is_told_apart() -> None:
    builder, _ = recorded()
    phases = {s.op: s.phase for s in builder.sites}
    assert phases["input:x"] == "data"
    assert phases["aten.tanh.default"] == "forward"
    assert phases["aten.ones_like.default"] == "backward"
    assert phases["aten.tanh_backward.default"] == "backward"
    assert phases["aten._foreach_addcdiv_.ScalarList"] == "optimizer"


def test_a_backward_operator_carries_its_forward_line_module_and_name() -> None:
    builder, _ = recorded()
    site = only(builder, "aten.tanh_backward.default")
    assert ("forward_op", "aten.tanh.default") in site.detail
    lines, start = inspect.getsourcelines(Net.forward)
    assert site.source is not None
    assert site.source.line == start + 1
    assert site.source.text in lines[1]
    assert site.source.function == "Net.forward"
    assert site.scope_type == "Net"
    matmul = [
        s for s in builder.sites if s.op == "aten.mm.default" and s.phase == "backward"
    ]
    assert [s.scope for s in matmul] == ["last", "last", "first"]


def test_an_operator_inside_a_stock_module_has_the_line_that_calls_it() -> None:
    builder, _ = recorded()
    site = [s for s in builder.sites if s.op == "aten.addmm.default"][-1]
    assert (site.scope, site.scope_type) == ("last", "Linear")
    assert site.source is not None
    assert "the line of last" in site.source.text


def test_parameters_and_buffers_are_sources_by_name() -> None:
    builder, net = recorded()
    sources = {s.op: s for s in builder.sites if s.kind == "source"}
    for name, _ in net.named_parameters():
        assert sources[f"parameter:{name}"].role == "parameter"
    assert sources["buffer:norm.running_mean"].role == "buffer"


@pytest.mark.parametrize("measure", MEASURES)
def test_parents_stand_in_operand_order(measure: Measure) -> None:
    a, b = torch.ones(3), torch.zeros(3)
    builder = TraceBuilder(0)
    with Recorder(builder, measure=measure) as recorder:
        recorder.source(a, "input:a", "input")
        recorder.source(b, "input:b", "input")
        torch.div(a, b)
        torch.div(b, a)
        torch.mul(a, a)
    recorder.finish()
    assert [s.parents for s in builder.sites[2:]] == [(0, 1), (1, 0), (0, 0)]


def chain(builder: TraceBuilder, site: Site) -> list[str]:
    """Operators from a value back along its first operands."""
    ops = [site.op]
    while site.parents:
        site = builder.sites[site.parents[0]]
        ops.append(site.op)
    return ops


def run(program: Any) -> tuple[TraceBuilder, Site]:
    builder = TraceBuilder(0)
    with Recorder(builder) as recorder:
        recorder.keep(program(), "output", "output")
    recorder.finish()
    return builder, builder.sites[-1]


def test_an_in_place_result_is_what_later_readers_see() -> None:
    def program() -> torch.Tensor:
        x = torch.ones(3)
        x.mul_(2)
        return x + 1

    builder, out = run(program)
    assert chain(builder, out) == [
        "output",
        "aten.add.Tensor",
        "aten.mul_.Tensor",
        "aten.ones.default",
    ]


def test_a_write_through_a_view_reaches_readers_of_its_base() -> None:
    def program() -> torch.Tensor:
        x = torch.full((3,), -math.inf)
        x[0] = 0.0
        return x.exp()

    builder, out = run(program)
    exp = builder.sites[out.parents[0]]
    (base,) = [builder.sites[p] for p in exp.parents]
    assert base.effect == "move"
    pieces = {builder.sites[p].op for p in base.parents}
    assert pieces == {"aten.full.default", "aten.copy_.default"}
    assert builder.summaries[base.index].neg_inf == 2
    assert builder.summaries[exp.index].is_finite


def test_a_write_to_the_base_reaches_readers_of_an_older_view() -> None:
    def program() -> torch.Tensor:
        x = torch.ones(2, 2)
        row = x[0]
        x.log_().log_()
        return row + 1

    builder, out = run(program)
    add = builder.sites[out.parents[0]]
    view = builder.sites[add.parents[0]]
    assert "aten.log_.default" in {builder.sites[p].op for p in view.parents}
    assert builder.summaries[view.index].neg_inf == 2


def test_a_freed_storage_is_not_mistaken_for_the_one_that_takes_its_place() -> None:
    def program() -> torch.Tensor:
        for _ in range(50):
            torch.ones(64).exp()
        return torch.from_numpy(np.zeros(64, np.float32)).sqrt()

    builder, out = run(program)
    assert chain(builder, out)[-2:] == ["aten.lift_fresh.default", "constant"]


@pytest.mark.parametrize("training", [True, False])
def test_running_statistics_are_written_in_training_only(training: bool) -> None:
    norm = nn.BatchNorm1d(3).train(training)
    builder = TraceBuilder(0)
    with Recorder(builder, modules=norm) as recorder:
        norm(torch.ones(4, 3))
        assert norm.running_mean is not None
        kept = recorder.keep(norm.running_mean, "buffer:running_mean", "buffer")
    recorder.finish()
    (parent,) = builder.sites[kept].parents
    assert (builder.sites[parent].kind == "operator") is training
    assert builder.summaries[kept].high == pytest.approx(0.1 if training else 0.0)


def test_gradient_accumulation_adds_to_what_was_there() -> None:
    w = torch.ones(3, requires_grad=True)
    builder = TraceBuilder(0)
    with Recorder(builder) as recorder:
        recorder.source(w, "parameter:w", "parameter")
        (w * 2).sum().backward()
        (w * 3).sum().backward()
        assert w.grad is not None
        kept = recorder.keep(w.grad, "gradient:w", "gradient")
    recorder.finish()
    accumulated = builder.sites[builder.sites[kept].parents[0]]
    assert accumulated.op == "aten.add_.Tensor"
    assert accumulated.phase == "backward"
    assert len(accumulated.parents) == 2
    assert builder.summaries[kept].total == 15.0
    assert builder.sites[kept].phase == "backward"


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_recomputes_under_the_same_line_and_module(
    reentrant: bool,
) -> None:
    class Block(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.exp(x).sqrt()

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = checkpoint(self.block, x, use_reentrant=reentrant)
            return y

    net, x = Outer(), torch.ones(3, requires_grad=True)
    builder = TraceBuilder(0)
    with Recorder(builder, modules=net) as recorder:
        net(x).sum().backward()
    recorder.finish()
    first = only(builder, "aten.exp.default", "forward")
    again = only(builder, "aten.exp.default", "recompute")
    assert (first.scope, first.source) == (again.scope, again.source)
    assert again.scope == "block"
    backward = [s for s in builder.sites if s.phase == "backward"]
    assert ("forward_op", "aten.sqrt.default") in [
        d for s in backward for d in s.detail
    ]


def test_a_foreach_operator_is_one_site_for_each_tensor() -> None:
    a, b = [torch.ones(2), torch.zeros(3)], [torch.full((2,), 2.0), torch.ones(3)]
    builder = TraceBuilder(0)
    with Recorder(builder) as recorder:
        torch._foreach_div_(b, a)
    recorder.finish()
    sites = [s for s in builder.sites if s.kind == "operator"]
    names = [s.index for s in builder.sites if s.kind == "source"]
    assert [s.output for s in sites] == [0, 1]
    assert [s.parents for s in sites] == [(names[0], names[2]), (names[1], names[3])]
    assert builder.summaries[sites[1].index].pos_inf == 3


def test_a_flag_beside_a_foreach_operator_depends_on_every_tensor() -> None:
    gradients = [torch.ones(2), torch.full((2,), math.inf)]
    found, scale = torch.zeros(1), torch.ones(1)
    builder = TraceBuilder(0)
    with Recorder(builder) as recorder:
        for i, g in enumerate(gradients):
            recorder.source(g, f"gradient:{i}", "gradient")
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, scale)
        flag = recorder.keep(found, "state:found_inf", "state")
    recorder.finish()
    (site,) = [builder.sites[p] for p in builder.sites[flag].parents]
    assert {0, 1} <= set(site.parents)
    assert builder.summaries[flag].high == 1.0
    second = [s for s in builder.sites if s.kind == "operator"][1]
    assert 1 in second.parents
    assert 0 not in second.parents


@pytest.mark.parametrize(
    ("program", "literal"),
    [
        (lambda x: x.masked_fill(x > 0, -math.inf), "-inf"),
        (lambda x: x.new_full((2,), math.nan), "nan"),
        (lambda x: x * math.inf, "+inf"),
    ],
    ids=["masked_fill", "full", "mul"],
)
def test_a_non_finite_scalar_is_recorded_as_a_literal(
    program: Any, literal: str
) -> None:
    builder, out = run(lambda: program(torch.ones(2)))
    assert builder.sites[out.parents[0]].literals == (literal,)


def test_scalar_operands_and_settings_are_kept_as_detail() -> None:
    _, out = run(lambda: torch.ones(2, 2).sum(dim=1, keepdim=True) + 1e-9)
    builder, out = run(lambda: torch.ones(2, 2).sum(dim=1, keepdim=True) + 1e-9)
    add = builder.sites[out.parents[0]]
    assert ("operand1", 1e-9) in add.detail
    assert ("dim", "[1]") in builder.sites[add.parents[0]].detail


@pytest.mark.parametrize(
    ("program", "effect"),
    [
        (lambda: torch.ones(2, 3).t(), "move"),
        (lambda: torch.ones(2).half(), "cast"),
        (lambda: torch.empty(2, dtype=torch.half).copy_(torch.ones(2)), "cast"),
        (lambda: torch.zeros(2), "fill"),
        (lambda: torch.empty(2), "uninitialised"),
        (lambda: torch.ones(2).exp(), "compute"),
    ],
    ids=["view", "to", "copy_ across dtypes", "zeros", "empty", "exp"],
)
def test_effects_say_what_an_operator_does_to_values(program: Any, effect: str) -> None:
    builder, out = run(program)
    assert builder.sites[out.parents[0]].effect == effect


def test_extremes_and_full_summaries_agree() -> None:
    full, _ = recorded("full")
    extremes, _ = recorded("extremes")
    assert [s.op for s in full.sites] == [s.op for s in extremes.sites]
    measured = 0
    for index, got in extremes.summaries.items():
        want: Summary = full.summaries[index]
        if got.low is None:
            continue
        measured += 1
        assert (got.low, got.high, got.amax) == (want.low, want.high, want.amax)
    assert measured > 60


@pytest.mark.parametrize("measure", MEASURES)
def test_a_trace_sees_where_a_nan_is_born(measure: Measure) -> None:
    builder = TraceBuilder(0)
    with Recorder(builder, measure=measure) as recorder:
        x = torch.tensor([0.0, 1.0], requires_grad=True)
        x.sqrt().mul(0).sum().backward()
    recorder.finish()
    bad = [s.op for s in builder.sites if builder.summaries[s.index].is_finite is False]
    assert bad[0] == "aten.div.Tensor"


def test_a_users_own_mode_does_not_see_what_the_recorder_runs() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Mine(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Mine(), Recorder(TraceBuilder(0)):
        torch.ones(3).exp()
    assert seen == ["aten.ones.default", "aten.exp.default"]


def test_a_failure_inside_the_recorder_leaves_the_program_running() -> None:
    builder = TraceBuilder(0)
    recorder = Recorder(builder)
    recorder._log.memory = None  # type: ignore[assignment]
    with recorder:
        y = torch.ones(2) + 1
    assert y.tolist() == [2.0, 2.0]
    assert isinstance(recorder.failure, AttributeError)
    with pytest.raises(AttributeError):
        recorder.finish()


def test_an_unknown_measure_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match="'full' or 'extremes'; got 'all'"):
        Recorder(TraceBuilder(0), measure="all")  # type: ignore[arg-type]


def test_evaluation_in_inference_mode_is_recorded_too() -> None:
    builder = TraceBuilder(0)
    recorder = Recorder(builder, measure="extremes")
    with torch.inference_mode(), recorder:
        torch.zeros(2).log()
    recorder.finish()
    recorder.restart(TraceBuilder(1))
    with recorder:
        torch.zeros(2).log()
    recorder.finish()
    assert [s.op for s in builder.sites] == ["aten.zeros.default", "aten.log.default"]
    assert builder.summaries[1].low == recorder.builder.summaries[1].low == -math.inf


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16], ids=str)
def test_extremes_of_a_cast_are_those_of_the_cast_values(low: torch.dtype) -> None:
    x = torch.randn(100, generator=torch.Generator().manual_seed(0)) * 1e5
    builder = TraceBuilder(0)
    with Recorder(builder, measure="extremes") as recorder:
        y = x.to(low)
        y.float().view(10, 10).half().double()
        torch.tensor([math.nan, 1.0]).to(low)
        x.to(torch.float8_e4m3fn)
    recorder.finish()
    casts = [s for s in builder.sites if s.effect == "cast"]
    want = [y, y.float(), y.float().half(), y.float().half().double()]
    for site, value in zip(casts, want, strict=False):
        got = builder.summaries[site.index]
        assert (got.low, got.high) == (value.min().item(), value.max().item())
    with_nan, narrow = (builder.summaries[s.index] for s in casts[4:])
    assert with_nan.has_nan
    eighth = x.to(torch.float8_e4m3fn).float()
    assert (narrow.low, narrow.high) == (eighth.min().item(), eighth.max().item())
