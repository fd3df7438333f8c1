# SPDX-License-Identifier: Apache-2.0
"""Tensors that a pattern names are kept every so many steps, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import numcheck_torch
from numcheck.errors import ArgumentError
from numcheck.record.witness import load_tensors
from tests.torch.watch.loops import inputs, square

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_chosen_gradients_are_kept_every_nth_step(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 3).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    numcheck_torch.instrument(
        model, audit_first=False, every=2, run=tmp_path, save="gradient:w*"
    )
    gradients = []
    with model.numcheck as monitor:
        for _ in range(4):
            optimizer.zero_grad()
            square(model(inputs().to(dtype))).backward()
            gradients.append(model.weight.grad.clone())
            optimizer.step()
        files = sorted(monitor.run_path.rglob("step-*.safetensors"))
    assert [f.stem for f in files] == ["step-00000000", "step-00000002"]
    for file, gradient in zip(files, gradients[::2], strict=True):
        kept = load_tensors(file)
        assert list(kept) == ["gradient:weight"]
        held = torch.from_numpy(kept["gradient:weight"].astype("float32"))
        assert torch.equal(held, gradient.float())


def test_without_a_run_folder_nothing_can_be_kept() -> None:
    with pytest.raises(ArgumentError, match="give run= too"):
        numcheck_torch.instrument(nn.Linear(2, 1), save="*")
