# SPDX-License-Identifier: Apache-2.0
"""The step can be run again with one thing changed, and nothing stays changed."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn import functional as fn

import numcheck_torch
from numcheck.diagnose.laboratory import CannotRunError
from tests.torch.identity.programs import build
from tests.torch.watch.loops import Breaks, inputs, square, train, watched

if TYPE_CHECKING:
    from numcheck_torch.laboratory import TorchLaboratory


def laboratory_of(
    model: nn.Module, x: torch.Tensor, target: torch.Tensor | None = None
) -> TorchLaboratory:
    """Return the laboratory of a step that ran up to its backward."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    numcheck_torch.instrument(model, optimizer, on_error="record", audit_first=False)
    model.user_s_optimizer = optimizer  # or it is gone before the step is run again
    out = model(x)
    loss = square(out) if target is None else fn.mse_loss(out, target)
    loss.backward()
    return model.numcheck.laboratory(with_update=True)


class Overflows(nn.Module):
    """Squares in float16 what float16 cannot square."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.layer(x) * 0 + 300).square().sqrt()


def test_float32_heals_what_only_float16_breaks() -> None:
    laboratory = laboratory_of(Overflows().half(), inputs().half())
    assert not laboratory.in_format("same").is_healthy
    assert laboratory.in_format("float32").is_healthy


def test_float32_does_not_heal_a_logarithm_of_zero() -> None:
    laboratory = laboratory_of(Breaks(), inputs(bad=True))
    assert not laboratory.in_format("float32").is_healthy
    assert not laboratory.in_format("float64").is_healthy


def test_lifted_run_leaves_parameters_as_they_were() -> None:
    model = Overflows().half()
    laboratory = laboratory_of(model, inputs().half())
    before = [(p, p.data_ptr(), p.dtype, p.grad) for p in model.parameters()]
    laboratory.in_format("float32")
    laboratory.beside_float32()
    after = [(p, p.data_ptr(), p.dtype, p.grad) for p in model.parameters()]
    assert all(
        a[0] is b[0] and a[1:3] == b[1:3] and a[3] is b[3]
        for a, b in zip(before, after, strict=True)
    )


@pytest.mark.parametrize(("rows", "healthy"), [([0, 1], True), ([2], False)])
def test_bad_sample_is_the_one_that_breaks(rows: list[int], healthy: bool) -> None:
    laboratory = laboratory_of(Breaks(), inputs(bad=True))
    assert laboratory.rows() == 6
    assert laboratory.on_rows(rows).is_healthy is healthy


def test_rows_of_the_target_go_with_rows_of_the_input() -> None:
    target = torch.zeros(6, 1)
    target[4] = math.nan
    laboratory = laboratory_of(nn.Linear(4, 1), inputs(), target)
    assert not laboratory.on_rows([3, 4]).is_healthy
    assert laboratory.on_rows([0, 1, 2, 3, 5]).is_healthy


def test_inputs_without_a_common_axis_have_no_rows() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.layer(x) + y

    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    numcheck_torch.instrument(model, optimizer, audit_first=False)
    model(inputs(), torch.ones(3)).sum().backward()
    laboratory = model.numcheck.laboratory(with_update=False)
    assert laboratory.rows() is None
    with pytest.raises(CannotRunError):
        laboratory.on_rows([0])


def test_first_parameters_heal_a_step_that_drifted() -> None:
    model, optimizer, monitor = watched(nn.Linear(4, 1), on_error="record")
    train(model, optimizer, bad_steps=(), steps=1)
    with torch.no_grad():
        model.weight.fill_(1e30)
    drifted = model.weight.data_ptr()
    square(model(inputs())).backward()
    laboratory = monitor.laboratory(with_update=False)
    assert not laboratory.is_healthy()
    assert laboratory.at_initial_parameters().is_healthy
    assert model.weight.data_ptr() == drifted


def test_first_parameters_too_large_to_keep_cannot_be_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("numcheck_torch.initial._memory", lambda: 0)
    laboratory = laboratory_of(Breaks(), inputs())
    with pytest.raises(CannotRunError, match="first_parameters_large"):
        laboratory.at_initial_parameters()


def test_sources_carry_the_names_of_the_call() -> None:
    program = build("dataclass output, frozen parameter")
    model = numcheck_torch.instrument(program.model, audit_first=False)
    program.compute(model, 0)
    trace = model.numcheck.laboratory(with_update=True).replay()
    named = {s.op: s.role for s in trace.sites if s.kind == "source"}
    assert named["input:x"] == "input"
    assert named["input:y"] == "input"
    assert named["input:target"] == "target"
    assert named["parameter:a.weight"] == "parameter"
    kept = {s.op for s in trace.sites if s.kind == "kept"}
    assert {"loss", "output:logits", "gradient:b.bias", "parameter:b.bias"} <= kept
    assert "gradient:a.bias" not in kept


class Counts(nn.Module):
    """Scales by the number of its calls; replaces one buffer, writes another."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.register_buffer("written", torch.ones(()))
        self.register_buffer("replaced", torch.ones(()), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layer(x) * self.written.clone() * self.replaced
        self.written += 1
        self.replaced = self.replaced * 2
        return out


def test_replay_reads_buffers_as_they_were_before_the_step() -> None:
    model = Counts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    numcheck_torch.instrument(model, optimizer, audit_first=False)
    for _ in range(3):
        square(model(inputs())).backward()
        optimizer.step()
        optimizer.zero_grad()
    loss = square(model(inputs()))
    loss.backward()
    laboratory = model.numcheck.laboratory(with_update=False)
    for _ in range(2):
        laboratory.replay()
        assert torch.equal(laboratory.outcomes.losses[0], loss)
    assert model.written.item() == 5
    assert model.replaced.item() == 16


def test_adapter_tells_targets_apart_without_loading_torch() -> None:
    program = """
import sys
from numcheck_torch.adapter import ADAPTER
assert not ADAPTER.claims(print) and not ADAPTER.claims_leaf(3)
assert "torch" not in sys.modules
import torch
assert ADAPTER.claims(torch.nn.Linear(1, 1))
assert ADAPTER.claims_leaf(torch.zeros(1)) and ADAPTER.claims_leaf(torch.nn.ReLU())
assert ADAPTER.claims_leaf(torch.optim.SGD([torch.zeros(1)], lr=1.0))
assert not ADAPTER.claims(torch.zeros(1))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
