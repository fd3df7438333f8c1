# SPDX-License-Identifier: Apache-2.0
"""Extremes that graphs need not return are those that looking at all elements gives."""

from __future__ import annotations

import functools
import math
import unittest.mock
from typing import TYPE_CHECKING, Any

import pytest
import torch

from numcheck.record import TraceBuilder
from numcheck_torch.compile import observed
from numcheck_torch.monotone import WORTH_IT
from numcheck_torch.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numcheck.record import Site

MIN_CUT = "aot_eager_decomp_partition"


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Watching:
    """A compiled function, and what one run of it was seen to do."""

    def __init__(self, program: Callable[..., Any], backend: str) -> None:
        self.net: Any = torch.compile(_Module(program), backend=backend)

    def __call__(self, step: Callable[[Any], Any]) -> tuple[TraceBuilder, list[int]]:
        """Return what was recorded, and the sites whose extremes graphs returned."""
        builder = TraceBuilder(0)
        with observed(self.net) as observer:
            recorder = Recorder(builder, measure="extremes", compiled=observer)
            rows: list[int] = []
            adopt = recorder._meter.adopt

            def noted(sites: Sequence[tuple[int, int]], found: torch.Tensor) -> None:
                rows.extend(site for site, _ in sites)
                adopt(sites, found)

            with unittest.mock.patch.object(recorder._meter, "adopt", noted), recorder:
                step(self.net)
            recorder.finish()
        return builder, rows


class _Module(torch.nn.Module):
    def __init__(self, program: Callable[..., Any]) -> None:
        super().__init__()
        self.program = program

    def forward(self, *args: Any) -> Any:
        return self.program(*args)


def extremes_of(values: torch.Tensor) -> tuple[str, str]:
    return str(values.min().item() + 0.0), str(values.max().item() + 0.0)


def scaled(x: torch.Tensor) -> torch.Tensor:
    return (x * -0.3 + 1.7) * 3e38


@pytest.mark.parametrize("special", [0.0, math.inf, -math.inf, math.nan], ids=str)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_numbers_and_a_known_operand_give_a_rows_extremes(
    backend: str, special: float
) -> None:
    x = torch.randn(WORTH_IT, generator=torch.Generator().manual_seed(0))
    x[7] = special
    watching = Watching(scaled, backend)
    builder, rows = watching(lambda net: net(x))
    values = [x * -0.3, x * -0.3 + 1.7, scaled(x)]
    sites = [s for s in builder.sites if s.kind == "operator"]
    got = [builder.summaries[s.index] for s in sites]
    assert [(str(g.low), str(g.high)) for g in got] == [*map(extremes_of, values)]
    assert not {s.index for s in sites} & set(rows)


@pytest.mark.parametrize("n", [WORTH_IT, 4])
def test_narrow_formats_and_short_values_are_looked_at(n: int) -> None:
    x = torch.ones(n, dtype=torch.bfloat16 if n > 4 else torch.float32)
    _, rows = Watching(lambda x: x * 0.3, "aot_eager")(lambda net: net(x))
    assert len(rows) == 1


def wavy(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.sin(torch.exp(torch.cos(x @ w))) * 0.5


def two_runs(net: Any, xs: list[torch.Tensor], w: torch.Tensor) -> None:
    losses = [net(x, w).sum() for x in xs]
    for loss in reversed(losses):
        loss.backward()


def recomputed(builder: TraceBuilder) -> list[Site]:
    sites = [s for s in builder.sites if s.kind == "operator"]
    return [s for s in sites if s.phase == "recompute"]


def test_what_a_backward_computes_again_has_the_values_of_its_own_forward() -> None:
    generator = torch.Generator().manual_seed(0)
    xs = [torch.randn(4, 4, generator=generator) * scale for scale in (1.0, 3.0)]
    w = torch.randn(4, 4, generator=generator).requires_grad_()
    watching = Watching(wavy, MIN_CUT)
    builder, rows = watching(functools.partial(two_runs, xs=xs, w=w))
    again = [s for s in recomputed(builder) if s.op == "aten.cos.default"]
    assert len(again) == 2
    assert not {s.index for s in again} & set(rows)
    for site, x in zip(again, reversed(xs), strict=True):
        summary = builder.summaries[site.index]
        wanted = extremes_of(torch.cos(x @ w))
        assert (str(summary.low), str(summary.high)) == wanted


def test_a_nan_that_a_backward_computes_again_is_seen_there_too() -> None:
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    w[0, 0] = math.inf
    w.requires_grad_()
    watching = Watching(wavy, MIN_CUT)
    builder, _ = watching(lambda net: net(x, w).sum().backward())
    again = [s for s in recomputed(builder) if s.op == "aten.cos.default"]
    assert [builder.summaries[s.index].has_nan for s in again] == [True]
