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


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.relu(self.layer(x) * 1.0), "extra": x}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("output:layer", {"output:layer"}),
        ("output:*", {"output:layer", "output:relu"}),
        ("output.log*", {"output.logits"}),
        ("output*", {"output:layer", "output:relu", "output.logits", "output.extra"}),
    ],
)
def test_outputs_of_modules_are_kept_as_they_were(
    tmp_path: Path, pattern: str, names: set[str]
) -> None:
    torch.manual_seed(0)
    model = Named()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    numcheck_torch.instrument(
        model, audit_first=False, every=2, run=tmp_path, save=pattern
    )
    with model.numcheck as monitor:
        for _ in range(2):
            optimizer.zero_grad()
            hidden = model.layer(inputs()).detach()
            square(model(inputs())["logits"]).backward()
            with torch.no_grad():
                model(inputs() * 100)
            optimizer.step()
            if monitor.step == 0:
                first = hidden
        (file,) = monitor.run_path.rglob("step-*.safetensors")
    kept = load_tensors(file)
    assert set(kept) == names
    for name in names & {"output:layer", "output.logits"}:
        want = first if name == "output:layer" else first.relu()
        assert torch.equal(torch.from_numpy(kept[name]), want)
    assert not torch.nn.modules.module._global_forward_hooks


def test_two_optimizers_of_one_step_write_one_file(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    halves = [torch.optim.SGD(part.parameters(), lr=0.1) for part in model]
    numcheck_torch.instrument(
        model, halves, audit_first=False, run=tmp_path, save="*weight"
    )
    before = model[0].weight.detach().clone()
    with model.numcheck as monitor:
        square(model(inputs())).backward()
        for half in halves:
            half.step()
        (file,) = monitor.run_path.rglob("step-*.safetensors")
    kept = load_tensors(file)["parameter:0.weight"]
    assert torch.equal(torch.from_numpy(kept), before)


def test_an_output_that_cannot_be_copied_does_not_stop_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = nn.Linear(4, 3)

    class Mapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.vmap(self.inner)(x)

    model = Mapped()
    numcheck_torch.instrument(model, audit_first=False, run=tmp_path, save="output*")
    with model.numcheck:
        square(model(inputs())).backward()
    assert "the copy of a module's output" in capsys.readouterr().err
