# SPDX-License-Identifier: Apache-2.0
"""What a loop leaves behind when it gives up is looked at all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import numcheck_torch
from numcheck.errors import ArgumentError

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


def test_an_optimizer_of_another_model_is_refused() -> None:
    mine, other = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    with pytest.raises(ArgumentError, match="holds no parameter of the model"):
        numcheck_torch.instrument(mine, optimizer)
