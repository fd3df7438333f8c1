# SPDX-License-Identifier: Apache-2.0
"""What a loop leaves behind when it gives up is looked at all the same."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch

import numcheck_torch
from numcheck import NonFiniteError

PROGRAM = """
import torch, numcheck_torch

def main():
    torch.manual_seed(0)
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    model = numcheck_torch.instrument(net, optimizer, audit_first=False)
    for step in range(5):
        x = torch.ones(3, 2) * (-1.0 if step == 3 else 1.0)
        loss = (model(x) * 0 + x).log().mean()
        if not torch.isfinite(loss):
            return
        optimizer.zero_grad(); loss.backward(); optimizer.step()

main()
"""


def test_a_loop_that_returns_on_a_bad_loss_is_still_explained() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert "error[N301]" in run.stderr
    assert "step 3" in run.stderr


def give_up(*, how: str) -> None:
    """Call a watched model, and drop it before anybody looks at its loss."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.BatchNorm1d(1))
    net.register_buffer("calls", torch.zeros(()))
    options: dict[str, Any] = {"audit_first": False}
    if how == "step":
        sgd = torch.optim.SGD(net.parameters(), lr=0.1)

        def make() -> torch.Tensor:
            sgd.zero_grad()
            return net(torch.ones(3, 2)).sum()

        step = numcheck_torch.instrument(make, **options)
        step()
    else:
        numcheck_torch.instrument(net, level=how, **options)
        net(torch.ones(3, 2)).sum()


@pytest.mark.parametrize("how", ["watch", "trace", "step"])
def test_a_model_dropped_in_mid_step_silences_no_check(how: str) -> None:
    give_up(how=how)
    with pytest.raises(NonFiniteError, match="bad"):
        numcheck_torch.check_numerics(torch.tensor([math.nan]), "bad")


def test_a_model_dropped_in_mid_step_leaves_no_mode_to_the_next() -> None:
    before = torch._C._len_torch_dispatch_stack()
    give_up(how="watch")
    net = torch.nn.Linear(2, 1)
    monitor = numcheck_torch.instrument(net, audit_first=False).numcheck
    net(torch.ones(3, 2)).sum()
    assert torch._C._len_torch_dispatch_stack() == before + 1
    monitor.close()
    assert torch._C._len_torch_dispatch_stack() == before


def test_a_check_of_a_step_that_goes_on_waits_for_its_monitor() -> None:
    net = torch.nn.Linear(2, 1)
    monitor = numcheck_torch.instrument(net, audit_first=False).numcheck
    loss = net(torch.ones(3, 2)).sum()
    numcheck_torch.check_numerics(loss * math.nan, "bad")
    with pytest.raises(NonFiniteError, match="bad"):
        monitor.close()


HEALTHY = """
import torch, numcheck_torch

net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
model = numcheck_torch.instrument(net, optimizer)

def mean(x):
    return model(x).mean()

for _ in range(2):
    optimizer.zero_grad()
    mean(torch.ones(3, 2)).backward()
    optimizer.step()
"""


def test_a_healthy_program_ends_without_a_word() -> None:
    run = subprocess.run(
        [sys.executable, "-c", HEALTHY], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_watching_again_and_again_leaves_nothing_at_the_model() -> None:
    net = torch.nn.Linear(2, 1)

    def listeners() -> int:
        numcheck_torch.instrument(net).numcheck.close()
        gc.collect()
        return weakref.getweakrefcount(net)

    assert listeners() == listeners() == listeners()


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "found"])
def test_an_optimizer_that_outlives_its_model_is_passed_over(
    is_named: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizers = (optimizer,) if is_named else ()
    numcheck_torch.instrument(model, *optimizers, on_error="record")
    monitor: Any = model.numcheck
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    parameters, known = list(model.parameters()), weakref.ref(model)
    del model
    gc.collect()
    assert known() is None
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    monitor.close()
    assert monitor.findings == ()
    assert "N901" not in "".join(capsys.readouterr())
