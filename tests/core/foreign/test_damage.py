# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from numcheck.errors import DumpError
from numcheck.record.foreign import read_dump, read_steps
from numcheck.record.foreign.lenient_json import salvage
from numcheck.report.messages import told
from tests.core.foreign.dumps import SAMPLES, called, step

if TYPE_CHECKING:
    from pathlib import Path


STATISTICS = ("Max", "Min", "Mean", "Norm")


def _copy(name: str, to: Path) -> Path:
    shutil.copytree(SAMPLES / name, to / name)
    (folder,) = (to / name / "step0").iterdir()
    return folder


def test_of_a_dump_cut_off_anywhere_the_whole_calls_are_kept(tmp_path: Path) -> None:
    folder = _copy("hidden", tmp_path)
    text = (folder / "dump.json").read_text()
    names = list(json.loads(text)["data"])
    kept = set()
    for cut in range(200, len(text), 150):
        (folder / "dump.json").write_text(text[:cut])
        try:
            (trace,) = read_steps(tmp_path)
        except DumpError:
            assert cut < text.index(names[1])
            continue
        found = [called(s) for s in trace.sites if s.kind == "operator"]
        calls = [n for n in names if n in found]
        kept.add(len(calls))
        assert trace.meta["notes"]
    assert len(kept) > 5


@pytest.mark.parametrize("cut", range(1, 60))
def test_what_is_salvaged_is_what_the_whole_text_holds(cut: int) -> None:
    text = '{"a": NaN, "data": {"x": [1, {"y": -Infinity}], "z": "}"}, "b": 2}'
    whole = {"data": {"x": [1, {"y": float("-inf")}], "z": "}"}, "b": 2}
    found = salvage(text[:cut]) or {}
    for key, value in found.items():
        if key == "data":
            assert value.items() <= whole["data"].items()
        elif key == "b":
            assert value == 2
    assert "b" not in found or len(found["data"]) == 2


def test_one_damaged_call_does_not_hide_the_others(tmp_path: Path) -> None:
    folder = _copy("hidden", tmp_path)
    dump = json.loads((folder / "dump.json").read_text())
    dump["data"]["Tensor.sum.0.forward"] = {"output": [{"dtype": 3, "shape": "?"}]}
    endless = {"dtype": "torch.float32", "shape": [float("inf")]}
    dump["data"]["Tensor.sum.1.forward"] = {"output": [endless]}
    dump["data"]["What.is.this"] = {}
    (folder / "dump.json").write_text(json.dumps(dump))
    (trace,) = read_steps(tmp_path)
    assert "Torch.softmax" in {s.op for s in trace.sites}
    english, chinese = (
        [told(note, lang) for note in trace.meta["notes"]] for lang in ("en", "zh")
    )
    assert sum("left out" in note for note in english) == 3
    assert not {*english} & {*chinese}


def test_without_stack_and_construct_the_flow_is_still_there(tmp_path: Path) -> None:
    folder = _copy("root", tmp_path)
    (folder / "stack.json").unlink()
    (folder / "construct.json").unlink()
    (trace,) = read_steps(tmp_path)
    assert all(s.source is None for s in trace.sites)
    ops = [s.op for s in trace.sites if s.kind == "operator" and s.phase == "forward"]
    assert "Torch.sqrt" in ops


def test_a_step_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "functions", tmp_path / "f")
    (tmp_path / "f/step0/proc4711/dump.json").write_text("{")
    (trace,) = read_steps(tmp_path / "f")
    assert list(trace.summaries) == [(1, 0)]
    assert any("no call" in note for note in trace.meta["notes"])


def test_a_dump_of_checksums_alone_is_refused_with_the_way_out(tmp_path: Path) -> None:
    folder = _copy("hidden", tmp_path)

    def without_values(item: object) -> object:
        if isinstance(item, list):
            return [without_values(i) for i in item]
        if not isinstance(item, dict):
            return item
        kept = {k: without_values(v) for k, v in item.items() if k not in STATISTICS}
        return {**kept, "md5": "0x875fe2b880ffffc7"} if "dtype" in item else kept

    dump = json.loads((folder / "dump.json").read_text())
    (folder / "dump.json").write_text(json.dumps(without_values(dump)))
    with pytest.raises(DumpError, match="checksums of tensors and no values: dump"):
        read_steps(tmp_path)


def test_a_dump_of_the_structure_alone_is_refused_too(tmp_path: Path) -> None:
    folder = _copy("hidden", tmp_path)
    (folder / "dump.json").write_text('{"task": "structure", "data": {}}')
    with pytest.raises(DumpError, match="names of calls and no values: dump again"):
        read_steps(tmp_path)


def test_a_folder_without_a_dump_is_an_error_that_says_what_was_expected(
    tmp_path: Path,
) -> None:
    with pytest.raises(DumpError, match=r"dump\.json"):
        read_dump(tmp_path)
    with pytest.raises(DumpError, match="does not exist"):
        read_dump(tmp_path / "nowhere")


def test_steps_and_ranks_come_together_in_one_trace() -> None:
    whole = read_dump(SAMPLES / "ranks")
    assert (whole.steps, whole.ranks) == ((0, 1), (0, 1))
    alone = step("ranks", 1, rank=1)
    for site in alone.sites:
        same = [s.index for s in whole.sites if called(s) == called(site)]
        assert any(
            whole.at(1, 1).summary(i) == alone.at(1, 1).summary(site) for i in same
        )
