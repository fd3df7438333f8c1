# SPDX-License-Identifier: Apache-2.0
"""Clipping by a norm that overflowed wipes out finite gradients; that is told."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import numcheck_torch
from numcheck import NonFiniteError


def clipped_step(dtype: torch.dtype) -> torch.nn.Module:
    plain = nn.Linear(64, 1, bias=False).to(dtype)
    optimizer = torch.optim.SGD(plain.parameters(), lr=1e-3)
    model = numcheck_torch.instrument(plain, optimizer, audit_first=False)
    out = model(torch.full((4, 64), 150.0, dtype=dtype))
    (200.0 * out.float().mean()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return model


def test_a_half_precision_norm_that_overflows_is_told_as_such() -> None:
    with pytest.raises(NonFiniteError) as caught:
        clipped_step(torch.float16)
    finding = caught.value.finding
    assert finding.id == "N103"
    assert finding.phase == "optimizer"
    assert finding.cause is not None
    assert finding.cause.cls == "precision"


def test_the_same_norm_in_float32_is_no_finding() -> None:
    assert clipped_step(torch.float32).numcheck.findings == ()
