# SPDX-License-Identifier: Apache-2.0
"""A dump that msprobe wrote against a run that numcheck watched, of one program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import numcheck_torch
from numcheck.comparison import compare_traces
from numcheck.comparison.commands import trace_at
from tests.core.foreign.dumps import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from numcheck.record import Trace

TENSORS = SAMPLES / "values" / "step0" / "rank0" / "dump_tensor_data"


def held(name: str) -> torch.Tensor:
    """Returns a tensor of the dump."""
    loaded = torch.load(TENSORS / f"{name}.pt", weights_only=True)
    assert isinstance(loaded, torch.Tensor)
    return loaded.detach()


class Program(nn.Module):
    """What the dumped program is, as far as its modules go."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        weight = held("Module.proj.Linear.forward.0.parameters.weight")
        self.proj = nn.Linear(weight.shape[1], weight.shape[0])
        self.scale = scale
        with torch.no_grad():
            self.proj.weight.copy_(weight)
            self.proj.bias.copy_(held("Module.proj.Linear.forward.0.parameters.bias"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.proj(x * self.scale)
        return (torch.log(torch.relu(h)) / torch.relu(h)).sum()


def watched(folder: Path, scale: float) -> Trace:
    """Returns what the run folder of one step holds."""
    model = numcheck_torch.instrument(
        Program(scale), level="trace", on_error="record", run=str(folder)
    )
    with model.numcheck:
        model(held("Module.proj.Linear.forward.0.input.0")).backward()
    return trace_at(str(folder))


@pytest.mark.parametrize("dump_first", [True, False])
def test_the_program_agrees_with_its_dump(tmp_path: Path, *, dump_first: bool) -> None:
    pair = (trace_at(str(SAMPLES / "values")), watched(tmp_path / "run", 1.0))
    comparison = compare_traces(*(pair if dump_first else pair[::-1]))
    kinds = {d.pair.a.kind for d in comparison.departures}
    assert {"given", "parameter", "module", "kept"} <= kinds
    assert comparison.first_difference is None


@pytest.mark.parametrize("dump_first", [True, False])
def test_a_factor_on_the_input_is_named_at_the_module(
    tmp_path: Path, *, dump_first: bool
) -> None:
    pair = (trace_at(str(SAMPLES / "values")), watched(tmp_path / "run", 1.01))
    first = compare_traces(*(pair if dump_first else pair[::-1])).first_difference
    assert first is not None
    assert (first.pair.a.kind, first.pair.a.path) == ("module", ("proj",))
