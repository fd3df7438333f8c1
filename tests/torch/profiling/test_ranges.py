# SPDX-License-Identifier: Apache-2.0
"""A profile's ranges carry the names of a report's sites."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.profiler import ProfilerActivity, profile

import numcheck_torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def ranges(folder: Path, work: Callable[[], Any]) -> list[dict[str, Any]]:
    """Returns the named ranges of an exported profile, in order of their start."""
    path = folder / "trace.json"
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        work()
    profiled.export_chrome_trace(str(path))
    events = json.loads(path.read_text("utf-8"))["traceEvents"]
    named = [e for e in events if e.get("cat") == "user_annotation"]
    return sorted(named, key=lambda e: (e["ts"], -e["dur"]))


def test_each_module_has_its_range_inside_its_parent_s(tmp_path: Path) -> None:
    model = Net()

    def work() -> None:
        with numcheck_torch.profiler_ranges(model):
            model(torch.ones(2, 4)).sum().backward()

    root, *parts = ranges(tmp_path, work)
    assert root["name"] == "Net"
    assert [e["name"] for e in parts] == ["layers.0", "layers.1"]
    for part in parts:
        assert root["ts"] <= part["ts"]
        assert part["ts"] + part["dur"] <= root["ts"] + root["dur"]


def test_ranges_are_spelled_as_the_scopes_of_a_trace(tmp_path: Path) -> None:
    model = numcheck_torch.instrument(Net(), level="trace", audit_first=False)

    def work() -> None:
        with numcheck_torch.profiler_ranges(model), model.numcheck:
            model(torch.ones(2, 4)).sum().backward()

    named = {e["name"] for e in ranges(tmp_path, work)}
    scopes = {s.scope for s in model.numcheck.trace.sites if s.phase == "forward"}
    assert named >= {s for s in scopes if s}


def test_a_checkpoint_s_second_forward_is_a_range_again(tmp_path: Path) -> None:
    model = Net()
    x = torch.ones(2, 4, requires_grad=True)

    def work() -> None:
        with numcheck_torch.profiler_ranges(model):
            kept = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
            kept.sum().backward()

    names = [e["name"] for e in ranges(tmp_path, work)]
    assert names.count("layers.0") == 2


def test_a_module_that_raises_closes_its_range(tmp_path: Path) -> None:
    model = Net()

    def work() -> None:
        with numcheck_torch.profiler_ranges(model):
            with pytest.raises(RuntimeError):
                model(torch.ones(2, 3))
            model(torch.ones(2, 4))

    names = [e["name"] for e in ranges(tmp_path, work)]
    assert names == ["Net", "layers.0", "Net", "layers.0", "layers.1"]


def test_nothing_stays_behind_and_results_are_the_same() -> None:
    model, x = Net(), torch.ones(2, 4)
    before = len(hooks._global_forward_pre_hooks), len(hooks._global_forward_hooks)
    plain = model(x)
    with numcheck_torch.profiler_ranges(model):
        assert torch.equal(model(x), plain)
    after = len(hooks._global_forward_pre_hooks), len(hooks._global_forward_hooks)
    assert after == before
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_compiled_part_is_left_as_it_is(tmp_path: Path) -> None:
    model = nn.Sequential(torch.compile(Net(), backend="eager"), nn.ReLU())

    def work() -> None:
        with numcheck_torch.profiler_ranges(model):
            model(torch.ones(2, 4))

    names = {e["name"] for e in ranges(tmp_path, work)}
    assert {"Sequential", "1"} <= names
    assert not any("layers" in name for name in names)
