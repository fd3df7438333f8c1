# SPDX-License-Identifier: Apache-2.0
"""A state in few bits that sticks after the first step is found by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import numcheck_torch

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding


class Counts(torch.nn.Module):
    """A layer that adds a number to a buffer at every call."""

    total: torch.Tensor

    def __init__(self, dtype: torch.dtype, addend: float) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.addend = addend
        self.register_buffer("total", torch.zeros((), dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += self.addend
        out: torch.Tensor = self.layer(x)
        return out


def found_in(counts: Counts, steps: int, *, audit_first: bool = True) -> list[Finding]:
    optimizer = torch.optim.SGD(counts.parameters(), lr=0.01)
    model = numcheck_torch.instrument(
        counts, on_error="record", audit_first=audit_first
    )
    x = torch.ones(2, 4)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    monitor: numcheck_torch.TorchMonitor = model.numcheck  # type: ignore[assignment]
    monitor.close()
    return [f for f in monitor.findings if f.severity != "note"]


def test_a_sum_that_sticks_later_is_found_within_twice_the_steps() -> None:
    dtype, addend = torch.bfloat16, 4.0
    # Sums stop where half a step of the format exceeds the addend.
    sticks, total = 0, torch.zeros((), dtype=dtype)
    while (total + addend) != total:
        total, sticks = total + addend, sticks + 1
    (found,) = found_in(Counts(dtype, addend), 2 * sticks + 4)
    assert found.id == "N401"
    assert found.harm[0].op == "buffer:total"
    assert sticks <= found.step <= 2 * sticks + 2


def test_a_sum_in_float32_that_moves_on_is_not_accused() -> None:
    assert found_in(Counts(torch.float32, 4.0), 100) == []


def test_who_wants_no_audits_gets_none() -> None:
    counts = Counts(torch.bfloat16, 16.0)
    assert found_in(counts, 600, audit_first=False) == []
    assert counts.total == counts.total + counts.addend
