# SPDX-License-Identifier: Apache-2.0
"""Mean and standard deviation of layers and gradients at every step, against NumPy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

from numcheck_torch.derived import Derived
from numcheck_torch.meters import ExtremesMeter
from numcheck_torch.sums import SELDOM
from tests.torch.watch.loops import watched

if TYPE_CHECKING:
    from numcheck.measure.summary import Summary
    from numcheck.options import Level
    from numcheck.record.trace import Trace

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
LEVELS: list[Level] = ["trace", "anchors"]
STEPS = 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 300), nn.Linear(300, 4)
        self.act, self.norm = nn.ReLU(inplace=True), nn.LayerNorm(300)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.norm(self.act(self.first(x))))
        return out


def trained(dtype: torch.dtype, level: Level) -> tuple[Trace, list[dict[str, Any]]]:
    """Return the trace, and by step what every layer returned and each gradient."""
    torch.manual_seed(7)
    model, optimizer, monitor = watched(Net().to(dtype), level=level, audit_first=False)
    seen: list[dict[str, Any]] = []
    for name, module in model.named_modules():

        def keep(_module: nn.Module, _args: Any, out: Any, name: str = name) -> None:
            seen[-1][name] = out.detach().double().numpy().copy()

        module.register_forward_hook(keep)
    for _ in range(STEPS):
        seen.append({})
        optimizer.zero_grad()
        model((torch.randn(64, 16) + 0.5).to(dtype)).square().mean().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            values = parameter.grad.double().numpy().copy()
            seen[-1][f"gradient:{name}"] = values
        optimizer.step()
    monitor.close()
    assert monitor.trace is not None
    return monitor.trace, seen


def layers_of(trace: Trace, step: int) -> dict[str, Summary]:
    """Return by module the last value with sums that was recorded in its forward."""
    return {
        site.scope: summary
        for index, summary in sorted(trace.summaries[step, 0].items())
        if (site := trace.sites[index]).phase == "forward"
        and site.kind == "operator"
        and summary.total is not None
    }


def assert_agrees(summary: Summary, values: np.ndarray[Any, Any]) -> None:
    spread = values.std()
    assert summary.mean == pytest.approx(values.mean(), rel=1e-5, abs=1e-6 * spread)
    assert summary.std == pytest.approx(spread, rel=1e-5)
    assert summary.rms == pytest.approx(math.sqrt(np.square(values).mean()), rel=1e-5)
    assert (summary.low, summary.high) == (values.min(), values.max())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_layer_has_its_mean_and_deviation_at_every_step(
    dtype: torch.dtype, level: Level
) -> None:
    trace, seen = trained(dtype, level)
    for step, values in enumerate(seen):
        found = layers_of(trace, step)
        for name in ("first", "act", "norm", "last"):
            assert_agrees(found[name], values[name])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_gradient_has_its_mean_and_deviation_at_every_step(
    dtype: torch.dtype,
) -> None:
    trace, seen = trained(dtype, "trace")
    places = {s.op: s.index for s in trace.sites if s.role == "gradient"}
    assert len(places) == len(list(Net().parameters()))
    for step, values in enumerate(seen):
        for name, index in places.items():
            assert_agrees(trace.summaries[step, 0][index], values[name])


def test_what_no_layer_returns_has_extremes_alone() -> None:
    trace, _ = trained(torch.float32, "trace")
    products = [s.index for s in trace.sites if s.phase == "optimizer"]
    assert products
    for index in products:
        summary = trace.summaries[0, 0].get(index)
        assert summary is None or summary.total is None


def test_a_checkpoint_that_runs_again_is_not_summed_again() -> None:
    model, optimizer, monitor = watched(Net(), level="trace", audit_first=False)
    out = torch.utils.checkpoint.checkpoint(
        model, torch.randn(8, 16), use_reentrant=False
    )
    out.square().mean().backward()
    optimizer.step()
    monitor.close()
    trace = monitor.trace
    assert trace is not None
    again = [s.index for s in trace.sites if s.phase == "recompute"]
    assert again
    assert all(
        s.total is None
        for i in again
        if (s := trace.summaries[0, 0].get(i)) is not None
    )


# --- the meter itself ---


def measured(*values: torch.Tensor) -> list[Summary]:
    meter = ExtremesMeter()
    for site, value in enumerate(values):
        meter.take(site, value)
        meter.sum_up(site, value)
    found = meter.read()
    found = Derived().complete(found, [], meter.summed)
    return [found[i] for i in range(len(values))]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_all_finite_have_no_sums(bad: float) -> None:
    (summary,) = measured(torch.tensor([1.0, bad, 2.0]))
    assert summary.kind is not None
    assert (summary.total, summary.total_sq, summary.nan) == (None, None, None)
    assert summary.mean is None
    assert summary.std is None


def test_squares_that_leave_float32_are_unknown_and_the_mean_is_not() -> None:
    large, small = measured(torch.full((9,), 1e25), torch.full((9,), 1e-25))
    assert large.mean == pytest.approx(1e25, rel=1e-6)
    assert small.mean == pytest.approx(1e-25, rel=1e-6)
    assert large.std is None
    assert small.std is None


def test_zeros_have_a_deviation_of_zero() -> None:
    (summary,) = measured(torch.zeros(5))
    assert (summary.mean, summary.std, summary.rms) == (0.0, 0.0, 0.0)


def test_an_empty_value_has_what_every_empty_one_has() -> None:
    (summary,) = measured(torch.empty(0, 3))
    assert (summary.n, summary.total, summary.total_sq) == (0, 0.0, 0.0)


def test_a_permuted_and_a_strided_value_are_summed_whole() -> None:
    base = torch.randn(40, 30)
    for summary, value in zip(
        measured(base.t(), base[::2, ::3]), (base.t(), base[::2, ::3]), strict=True
    ):
        assert_agrees(summary, value.double().numpy())


@pytest.mark.parametrize("n", [1000, 1 << 16, 3 * (1 << 18) + 5])
@pytest.mark.parametrize("kind", ["one value", "heavy tails"])
def test_sums_are_exact_to_a_few_roundings_however_long_the_value(
    n: int, kind: str
) -> None:
    value = torch.full((n,), 1.1) if kind == "one value" else (2 * torch.randn(n)).exp()
    (summary,) = measured(value)
    wide = value.double()
    rounding = 2.0**-24
    assert summary.total == pytest.approx(float(wide.sum()), rel=16 * rounding)
    squares = float(wide.square().sum())
    assert summary.total_sq == pytest.approx(squares, rel=16 * rounding)


def test_a_float16_whose_sum_leaves_its_range_is_summed_in_float32() -> None:
    (summary,) = measured(torch.full((64,), 60000.0, dtype=torch.float16))
    assert summary.mean == 60000.0
    assert summary.std == pytest.approx(0.0, abs=20.0)


def test_long_narrow_values_are_summed_in_one_step_of_a_few() -> None:
    meter, value = ExtremesMeter(), torch.ones(1 << 18, dtype=torch.bfloat16)
    summed = []
    for _ in range(2 * SELDOM):
        meter.take(0, value)
        meter.sum_up(0, value)
        meter.read()
        summed.append(0 in meter.summed)
    assert summed == 2 * ([True] + (SELDOM - 1) * [False])
