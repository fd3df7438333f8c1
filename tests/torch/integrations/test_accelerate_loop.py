# SPDX-License-Identifier: Apache-2.0
"""A loop written with Accelerate, watched."""

from __future__ import annotations

import pytest
import torch

from numcheck_torch.integrations.accelerate import prepare

accelerate = pytest.importorskip("accelerate")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_a_bad_step_is_found_in_an_accelerated_loop(precision: str) -> None:
    torch.manual_seed(0)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision=precision)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model, optimizer = prepare(accelerator, model, optimizer, on_error="record")
    for step in range(4):
        with accelerator.accumulate(model):
            loss = model(torch.randn(8, 4)).float().square().mean()
            if step == 3:
                loss = torch.log(loss - 1e9)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    model.numcheck.close()
    errors = [f for f in model.numcheck.findings if f.severity == "error"]
    assert [(f.step, f.site.op) for f in errors] == [(3, "aten.log.default")]
