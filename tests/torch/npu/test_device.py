# SPDX-License-Identifier: Apache-2.0
"""The simulated device does what is known of the real one."""

from __future__ import annotations

import pytest
import torch

from numcheck_torch.statistics import summarize
from tests.torch.npu.device import CHIP, chip


def test_tensors_live_on_a_device_named_npu() -> None:
    x = torch.ones(2, 3, device="npu", dtype=torch.float16)
    assert (x.device.type, x.dtype) == ("npu", torch.float16)
    assert torch.equal(torch.arange(3.0).to("npu").cpu(), torch.arange(3.0))


def test_training_on_it_gives_the_cpu_s_numbers() -> None:
    def losses(device: str) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)
        ).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        x, y = torch.randn(6, 4).to(device), torch.arange(6).remainder(3).to(device)
        found = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    assert losses("npu") == losses("cpu")


def test_inf_and_nan_are_kept_in_one_mode_and_hidden_in_the_other() -> None:
    def squared(value: float) -> float:
        x = torch.tensor([value], dtype=torch.float16).to("npu")
        return float((x * x).cpu())

    assert squared(300.0) == float("inf")
    with chip(soc=104, saturates=True):
        assert squared(300.0) == 65504.0
        assert CHIP.flag
        CHIP.flag = False
        root = torch.sqrt(torch.tensor([-1.0]).to("npu"))
        assert (float(root.cpu()), CHIP.flag) == (0.0, True)


def test_the_flag_functions_refuse_where_there_is_no_flag() -> None:
    with pytest.raises(RuntimeError, match="Unsupported"):
        torch.npu.get_npu_overflow_flag()


def test_it_notes_float64_and_missing_kernels() -> None:
    torch.ones(2, device="npu").double().sum()
    torch.aminmax(torch.ones(2, device="npu"))
    assert any("float64" in name for name in CHIP.forbidden)
    assert "aten::aminmax" in CHIP.forbidden


def test_a_float32_sum_that_overflows_is_not_known() -> None:
    huge = torch.full((4,), 3e38).to("npu")
    held = summarize(huge)
    assert (held.amax, held.total, held.total_sq) == (pytest.approx(3e38), None, None)
