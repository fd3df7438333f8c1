# SPDX-License-Identifier: Apache-2.0
"""What cannot be read is zero for a known reason, or the recorder says so."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from numcheck.record import TraceBuilder
from numcheck_torch.recorder import Recorder


def test_tangents_that_are_zero_throughout_are_zero() -> None:
    builder = TraceBuilder(step=0)
    x = torch.ones(3)
    with Recorder(builder, measure="extremes") as recorder:
        zero = torch._efficientzerotensor((3,))
        torch.mul(zero, x)
    recorder.finish()
    summary = builder.summaries[builder.sites[-1].index]
    assert (summary.n, summary.low, summary.high) == (3, 0.0, 0.0)


def test_a_reduction_that_fails_is_told_and_not_the_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        msg = "the device is gone"
        raise RuntimeError(msg)

    monkeypatch.setattr(torch, "aminmax", fail)
    with Recorder(TraceBuilder(step=0), measure="extremes") as recorder:
        y = torch.ones(3) + 1
    assert y.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="the device is gone"):
        recorder.finish()
