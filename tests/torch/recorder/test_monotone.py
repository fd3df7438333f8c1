# SPDX-License-Identifier: Apache-2.0
"""Extremes made of the operand's are those that looking at every element gives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch

from numcheck.record import TraceBuilder
from numcheck_torch.meters import ExtremesMeter
from numcheck_torch.monotone import WORTH_IT
from numcheck_torch.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "mul": lambda x: x * 0.3,
    "negative mul": lambda x: x * -1.7,
    "overflow": lambda x: x * 3e4 * 3e4,
    "add and sub": lambda x: (x + 0.1) - 1e-3,
    "sqrt": lambda x: x.abs().sqrt(),
    "sqrt of negatives": torch.sqrt,
    "neg and relu": lambda x: (-x).relu(),
    "in place": lambda x: x.clone().mul_(0.7).add_(1.0).neg_(),
    "alpha": lambda x: torch.add(x, 2, alpha=3),
    "division": lambda x: x / 3.0,
    "by infinity": lambda x: (x * 0) * math.inf,
    "by a number past float32": lambda x: x.sign() * 1e39,
    "stack and cat": lambda x: torch.cat([torch.stack([x, x.clone()]), -x[None]]),
    "cat of empty ones": lambda x: torch.cat([x[:0], x * 2, x[:0].clone()]),
    "cat of casts": lambda x: torch.cat([x.half().double(), x.double()]).float(),
    "foreach": lambda x: torch._foreach_sqrt(torch._foreach_mul([x, x * x], 0.9)),
}

# Made of the operand by nothing that is known to keep its order.
UNKNOWN = ("alpha", "division", "by infinity", "by a number past float32")


def values(dtype: torch.dtype, special: float) -> torch.Tensor:
    x = torch.randn(WORTH_IT, generator=torch.Generator().manual_seed(0)) * 7
    x[5] = special
    return x.to(dtype)


def recorded(program: Callable[[], Any], monkeypatch: Any) -> tuple[list[Any], int]:
    """Return what was recorded of a program, and how many values were looked at."""
    taken: list[int] = []
    take = ExtremesMeter.take

    def counted(self: ExtremesMeter, site: int, tensor: torch.Tensor) -> None:
        taken.append(site)
        take(self, site, tensor)

    monkeypatch.setattr(ExtremesMeter, "take", counted)
    builder = TraceBuilder(0)
    recorder = Recorder(builder, measure="extremes")
    with recorder:
        program()
    recorder.finish()
    held = [(s.op, builder.summaries[s.index]) for s in builder.sites]
    found = [(op, *map(_text, (s.low, s.high, s.amax))) for op, s in held]
    return found, len(set(taken))


def _text(value: float | None) -> str:
    # Which of two zeros is the smaller one, each kernel decides by itself.
    return str(0.0 if value == 0 else value)


@pytest.mark.parametrize("special", [0.0, math.inf, -math.inf, math.nan], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_what_looking_at_all_elements_gives(
    name: str, dtype: torch.dtype, special: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = values(dtype, special)
    got, few = recorded(lambda: PROGRAMS[name](x), monkeypatch)
    monkeypatch.setattr("numcheck_torch.site_log.WORTH_IT", 1 << 40)
    want, many = recorded(lambda: PROGRAMS[name](x), monkeypatch)
    assert got == want
    assert few < many or name in UNKNOWN


def test_complex_numbers_have_no_order_to_keep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.complex(values(torch.float32, 0.0), values(torch.float32, 1.0) - 50)
    _, taken = recorded(lambda: torch.sqrt(x + 100.0), monkeypatch)
    assert taken == 3


def test_what_is_joined_with_memory_nobody_wrote_to_is_looked_at() -> None:
    builder, x = TraceBuilder(0), values(torch.float32, math.nan)
    recorder = Recorder(builder, measure="extremes")
    with recorder:
        torch.cat([x, torch.empty(WORTH_IT, dtype=torch.float16).float()])
    recorder.finish()
    assert builder.sites[-1].op == "aten.cat.default"
    assert builder.summaries[builder.sites[-1].index].has_nan


def test_a_number_that_changes_from_step_to_step_is_heeded() -> None:
    x = values(torch.float32, 0.0)
    recorder = Recorder(TraceBuilder(0), measure="extremes")
    for step, factor in enumerate((2.0, 2.0, 5.0, 5.0)):
        builder = TraceBuilder(step)
        recorder.restart(builder)
        with recorder:
            y = x * factor
        recorder.finish()
        (site,) = (s for s in builder.sites if s.op == "aten.mul.Tensor")
        assert builder.summaries[site.index].high == y.max().item()
