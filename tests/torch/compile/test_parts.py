# SPDX-License-Identifier: Apache-2.0
"""A value put together of others has extremes that those of its parts give."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from numcheck_torch.compile.extra_output import add_extremes
from numcheck_torch.compile.place import JointGraph, Place
from numcheck_torch.compile.table import tabulate

Program = Any  # from two tensors to several


class Values(torch.fx.Interpreter):
    """Runs a graph and keeps what its nodes made."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.of: dict[str, Any] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        self.of[n.name] = value = super().run_node(n)
        return value


def taken_apart(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    whole = (x * y).view(5, 2, 2).permute(1, 0, 2)
    first, second = whole[0], whole[1]
    one, other = torch.sin(x + y).split([1, 3], dim=1)
    left = torch.cos(x)[:, :3] + torch.cos(y)[:, 1:]
    return [first, second, one, other, left, *torch.exp(y).unbind(1)]


def taken_in_part(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    whole, other = x * y, x + y
    return [whole[:, :2], whole[:, 3:], whole.t()[2:], other[0], other[:, 1:]]


def scattered(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    parts = torch.stack([x, y, x]).sin().transpose(1, 2)
    zeros = torch.zeros_like(parts)
    one = torch.select_scatter(zeros, parts[1], 0, 2)
    other = torch.slice_scatter(zeros, parts[:2].exp(), 0, 0, 2)
    same = torch.select_scatter(zeros, parts[2], 0, 2)
    third = torch.select_scatter(zeros, parts[0].sin(), 0, -3)
    across = torch.select_scatter(zeros, parts[:, 0], 1, 1)
    summed = [one + other, other + same, one + same, one + third, one + across]
    return [*summed, one + third + torch.select_scatter(zeros, parts[1].exp(), 0, 1)]


def spread(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    row = torch.sin(x[3:4])
    around = torch.full((5, 6), -7.0, dtype=x.dtype)
    padded = torch.slice_scatter(around, x * y, 1, 1, 5)
    joined = torch.cat([row, padded[:, :4], y + 1.0, row.t().view(1, 4)])
    return [row.expand(5, 4), padded, joined, torch.full((3,), 0.1, dtype=x.dtype)]


@pytest.mark.parametrize("special", [0.0, -0.0, math.inf, -math.inf, math.nan], ids=str)
@pytest.mark.parametrize(
    ("program", "composed"),
    [(taken_apart, 3), (taken_in_part, 0), (scattered, 13), (spread, 4)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_returned_extremes_are_those_of_all_elements(
    program: Program, composed: int, dtype: torch.dtype, special: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 5, 4, generator=generator).to(dtype)
    x[3, 1] = special
    module = make_fx(program, tracing_mode="fake")(x, y)
    table = tabulate(module, "forward", JointGraph(Place("", "")))
    own = len(module.graph.output_node().args[0])
    extras = add_extremes(module, table)
    values = Values(module)
    results = values.run(x, y)
    assert sum(row.parts is not None for row in table.rows) == composed
    for extra, pairs in zip(extras, results[own:], strict=True):
        assert pairs.dtype == dtype
        for number, pair in zip(extra.rows, pairs.float() + 0.0, strict=True):
            value = values.of[table.rows[number].node.name].float() + 0.0
            wanted = torch.stack([value.min(), value.max()])
            torch.testing.assert_close(pair, wanted, rtol=0, atol=0, equal_nan=True)
