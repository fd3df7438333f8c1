# SPDX-License-Identifier: Apache-2.0
"""A step recorded after the last one's script is what it would be recorded anew."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from numcheck.record import TraceBuilder
from numcheck_torch.operators import describe
from numcheck_torch.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.measure.summary import Summary
    from numcheck.record import Site


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.path = "one"
        self.depth = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(getattr(self, self.path)(x))
        for _ in range(self.depth):
            h = functional.dropout(torch.exp(h), 0.2)
        h[0] = 0.5
        return h.sum(-1)


def steady(net: Net, k: int, x: torch.Tensor) -> torch.Tensor:
    return x


def other_shape(net: Net, k: int, x: torch.Tensor) -> torch.Tensor:
    return x[: 8 - k]


def other_branch(net: Net, k: int, x: torch.Tensor) -> torch.Tensor:
    net.path = "two" if k % 2 else "one"
    return x


def other_depth(net: Net, k: int, x: torch.Tensor) -> torch.Tensor:
    net.depth = 1 + k % 3
    return x


def overflowing(net: Net, k: int, x: torch.Tensor) -> torch.Tensor:
    return x * (1e30 if k == 3 else 1.0)


def recorded(
    change: Callable[[Net, int, torch.Tensor], torch.Tensor], *, again: bool
) -> list[tuple[list[Site], dict[int, Summary]]]:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(8, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    recorder: Recorder | None = None
    found = []
    for k in range(6):
        builder = TraceBuilder(k)
        if recorder is None or not again:
            recorder = Recorder(builder, modules=net, measure="extremes")
        else:
            recorder.restart(builder)
        batch = change(net, k, x)
        with recorder:
            recorder.source(batch, "input:x", "input")
            loss = net(batch).sum()
            recorder.keep(loss, "loss", "loss")
            loss.backward()
            with recorder.phase("optimizer"):
                optimizer.step()
        recorder.keep(net.one.weight, "parameter:one.weight", "parameter")
        recorder.finish()
        optimizer.zero_grad()
        found.append((builder.sites, builder.summaries))
    return found


@pytest.mark.parametrize(
    "change", [steady, other_shape, other_branch, other_depth, overflowing]
)
def test_sites_and_summaries_are_those_of_a_fresh_recorder(
    change: Callable[[Net, int, torch.Tensor], torch.Tensor],
) -> None:
    pairs = zip(
        recorded(change, again=False), recorded(change, again=True), strict=True
    )
    for (sites, summaries), (sites_again, summaries_again) in pairs:
        assert sites_again == sites
        assert repr(summaries_again) == repr(summaries)


def test_a_last_batch_that_nobody_named_is_read_anew() -> None:
    shown = []
    recorder = Recorder(TraceBuilder(0), measure="extremes")
    for k, rows in enumerate((4, 2, 0, 4)):
        recorder.restart(TraceBuilder(k))
        x = torch.full((rows, 2), float(k))
        with recorder:
            (x * 2).exp()
        recorder.finish()
        builder = recorder.builder
        shown.append([(s.op, s.shape, s.parents) for s in builder.sites])
        assert builder.summaries[0].n == 2 * rows
    assert shown == [
        [
            ("constant", (rows, 2), ()),
            ("aten.mul.Tensor", (rows, 2), (0,)),
            ("aten.exp.default", (rows, 2), (1,)),
        ]
        for rows in (4, 2, 0, 4)
    ]


def test_a_repeated_step_is_taken_over_not_described_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    described: list[Any] = []
    operator_type = type(describe(torch.ops.aten.exp.default))
    literals = operator_type.literals
    monkeypatch.setattr(
        operator_type,
        "literals",
        lambda self, *a: (described.append(self), literals(self, *a))[1],
    )
    recorder = Recorder(TraceBuilder(0), measure="extremes")
    counts = []
    for k in range(3):
        if k:
            recorder.restart(TraceBuilder(k))
        with recorder:
            torch.ones(3).exp().log()
        recorder.finish()
        counts.append(len(described))
    assert counts == [3, 3, 3]


def test_a_value_that_turns_bad_in_a_repeated_step_is_seen() -> None:
    recorder = Recorder(TraceBuilder(0), measure="extremes")
    for k, value in enumerate([1.0, 2.0, math.nan]):
        if k:
            recorder.restart(TraceBuilder(k))
        x = torch.full((2,), value)
        with recorder:
            y = x * 2
            recorder.keep(y, "output", "output")
        recorder.finish()
    summaries = recorder.builder.summaries
    assert [summaries[s.index].is_finite for s in recorder.builder.sites] == [False] * 3


def reset(buffers: list[torch.Tensor]) -> None:
    for buffer in buffers:
        buffer.fill_(math.nan)


def replaced(buffers: list[torch.Tensor]) -> None:
    buffers[:] = [torch.full_like(buffer, math.nan) for buffer in buffers]


def untouched(buffers: list[torch.Tensor]) -> None:
    """Leave the state as the last step left it."""


@pytest.mark.parametrize("between", [reset, replaced, untouched])
def test_state_is_known_from_the_last_step_unless_it_changed(
    between: Callable[[list[torch.Tensor]], None],
) -> None:
    recorder = Recorder(TraceBuilder(0), measure="extremes")
    state = [torch.ones(4), torch.zeros(4)]
    for k in range(6):
        recorder.restart(TraceBuilder(k))
        want = [extremes_of(buffer) for buffer in state]
        with recorder, recorder.phase("optimizer"):
            torch._foreach_mul_(state, 0.5)
            torch._foreach_add_(state, 1.0)
        recorder.finish()
        builder = recorder.builder
        read = [s.index for s in builder.sites if s.role == "constant"]
        assert [held(builder, i) for i in read] == want
        wrote = [
            s.index for s in builder.sites if s.op.startswith("aten._foreach_add_")
        ]
        assert [held(builder, i) for i in wrote] == list(map(extremes_of, state))
        if k == 3:
            between(state)


def test_memory_that_is_written_without_a_count_is_looked_at_each_step() -> None:
    recorder = Recorder(TraceBuilder(0), measure="extremes")
    batch, average = np.zeros(3, np.float32), torch.ones(3)
    target = torch.from_numpy(batch)
    for k in range(6):
        batch[:] = math.nan if k == 4 else k
        average.data.mul_(2)
        want = [extremes_of(target), extremes_of(average)]
        recorder.restart(TraceBuilder(k))
        with recorder:
            torch.mul(target, average)
        recorder.finish()
        read = [s.index for s in recorder.builder.sites if s.role == "constant"]
        assert [held(recorder.builder, i) for i in read] == want


@pytest.mark.parametrize("size", [3, 1 << 15], ids=["measured", "derived"])
@pytest.mark.parametrize("name", ["mul", "div", "add_"])
def test_numbers_of_a_repeated_step_are_its_own(name: str, size: int) -> None:
    recorder = Recorder(TraceBuilder(0), measure="extremes")
    for k, number in enumerate([1.0, 1.0, math.inf, 0.5, 0.0, 3, 3]):
        recorder.restart(TraceBuilder(k))
        fresh = Recorder(TraceBuilder(k), measure="extremes")
        for one in (recorder, fresh):
            x = torch.linspace(-1.0, 1.0, size)
            with one:
                getattr(x, name)(number)
            one.finish()
        assert recorder.builder.sites == fresh.builder.sites
        got, want = (
            [[summary.low, summary.high] for _, summary in sorted(found.items())]
            for found in (recorder.builder.summaries, fresh.builder.summaries)
        )
        np.testing.assert_array_equal(np.array(got, float), np.array(want, float))


class Passed(torch.nn.Module):
    """Calls a module that adds no site for two values in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.same = torch.nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x + 1, x * 100
        passed: torch.Tensor = self.same(first) + self.same(second)
        return passed


def test_values_passed_through_one_module_are_summed_each_for_itself() -> None:
    module = Passed()
    recorder = Recorder(TraceBuilder(0), modules=module, measure="extremes")
    for k in range(4):
        recorder.restart(TraceBuilder(k))
        with recorder:
            module(torch.full((4,), float(k)))
        recorder.finish()
        sums = {
            s.op: recorder.builder.summaries[s.index].total
            for s in recorder.builder.sites[:3]
        }
        assert sums["aten.mul.Tensor"] == 400.0 * k
        assert [t for op, t in sums.items() if op == "aten.add.Tensor"] == [4 * k + 4.0]


@pytest.mark.parametrize("shape", [(), (3,), (2, 5)], ids=str)
def test_short_values_of_a_list_are_measured_each_for_itself(
    shape: tuple[int, ...],
) -> None:
    recorder = Recorder(TraceBuilder(0), measure="extremes")
    for k, special in enumerate([0.0, math.inf, math.nan, -math.inf, 1.0]):
        recorder.restart(TraceBuilder(k))
        values = [torch.full(shape, float(i)) for i in range(7)]
        values[k].view(-1)[0] = special
        with recorder:
            found = torch._foreach_exp(values)
        recorder.finish()
        sites = [s.index for s in recorder.builder.sites if "_foreach_exp" in s.op]
        got = [held(recorder.builder, i) for i in sites]
        assert got == [extremes_of(value) for value in found]


def extremes_of(value: torch.Tensor) -> tuple[str, str]:
    return repr(value.min().item()), repr(value.max().item())


def held(builder: TraceBuilder, site: int) -> tuple[str, str]:
    summary = builder.summaries[site]
    return repr(summary.low), repr(summary.high)
