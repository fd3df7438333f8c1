# SPDX-License-Identifier: Apache-2.0
"""Operators that prepare the targets inside the loss belong to the step."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import numcheck_torch
from numcheck import NonFiniteError


def test_a_division_among_the_targets_is_the_origin_not_its_result() -> None:
    plain = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    model = numcheck_torch.instrument(plain, optimizer)
    rewards = torch.ones(5, 1)
    out = model(torch.randn(5, 3))
    advantages = (rewards - rewards.mean()) / rewards.std()
    (out * advantages).mean().backward()
    with pytest.raises(NonFiniteError) as caught:
        optimizer.step()
    finding = caught.value.finding
    assert finding.site.op == "aten.div.Tensor"
    assert finding.phase == "forward"


def test_what_the_program_never_reads_does_not_join_it() -> None:
    model = numcheck_torch.instrument(nn.Linear(3, 1), audit_first=False)
    monitor = model.numcheck
    labels = torch.rand(4)
    out = model(torch.randn(4, 3))
    metric = (labels * 2).sum()
    out.mean().backward()
    names = [str(getattr(e, "function", "")) for e in monitor._window.program.events]
    assert float(metric) > 0
    assert not any("mul" in name or "sum" in name for name in names)


def test_targets_that_are_written_in_place_stay_what_the_loss_read() -> None:
    plain = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    model = numcheck_torch.instrument(plain, optimizer, audit_first=False)
    monitor = model.numcheck
    labels = torch.rand(4, 1)
    out = model(torch.randn(4, 3))
    target = labels * 2
    labels.zero_()
    ((out - target) ** 2).mean().backward()
    laboratory = monitor.laboratory(with_update=False)
    laboratory.replay()
    weight = model.weight.grad
    assert torch.equal(laboratory.outcomes.gradients["weight"], weight)


@pytest.mark.parametrize("is_written", [False, True])
def test_only_a_tensor_of_one_number_is_no_target(is_written: bool) -> None:
    plain = nn.Linear(3, 1)
    model = numcheck_torch.instrument(plain, on_error="record")
    out = model(torch.ones(2, 3))
    divisor = torch.zeros(2, 1)
    if is_written:
        divisor[0] = 1.0
    (out / divisor).sum().backward()
    model.numcheck.close()
    (finding,) = model.numcheck.findings
    is_named = "input:target" in [fact.name for fact in finding.facts]
    assert is_named is is_written
    assert finding.cause is not None
    assert (finding.cause.cls, finding.cause.rule) == ("op-domain", "N351")
