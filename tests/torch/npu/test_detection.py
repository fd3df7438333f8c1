# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from numcheck.diagnose import Incident, diagnose
from numcheck.errors import ArgumentError, DumpError, MissingExtraError
from numcheck_torch import npu


class Dumper:
    """Stands for the device: writes a record where the configuration says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        for name in ("init_dump", "finalize_dump"):
            monkeypatch.setattr(torch.npu, name, self._called(name), raising=False)
        monkeypatch.setattr(torch.npu, "set_dump", self.set_dump, raising=False)

    def _called(self, name: str) -> object:
        return lambda: self.calls.append(name)

    def set_dump(self, path: str) -> None:
        self.config = json.loads(Path(path).read_text())["dump"]
        self.calls.append("set_dump")

    def overflows(self, home: Path, status: int = 0x120) -> None:
        core = {"model_id": 0, "stream_id": 3, "task_id": 8, "status": status}
        name = "Opdebug.Node_OpDebug.1.3.1700.output.0.json"
        (home / name).write_text(json.dumps({"AI Core": core}))
        (home / "MatMulV2.head.8.3.1699").write_bytes(b"")


def test_what_the_device_wrote_is_diagnosed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Dumper(monkeypatch)
    with npu.overflow_detection(tmp_path / "dump") as detection:
        device.overflows(detection.folder)
    assert device.calls == ["init_dump", "set_dump", "finalize_dump"]
    assert device.config["dump_debug"] == "on"
    trace = detection.read()
    (found,) = diagnose(Incident(trace, 0))
    assert (found.id, found.site.op) == ("N602", "MatMulV2")
    seen = {e.key for e in found.evidence}
    assert {"status_float_overflow", "status_conversion_to_float16"} <= seen


def test_a_record_of_a_status_without_any_flag_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Dumper(monkeypatch)
    with npu.overflow_detection(tmp_path / "dump") as detection:
        device.overflows(detection.folder, status=0)
    assert diagnose(Incident(detection.read(), 0)) == ()


def test_a_block_in_which_nothing_overflows_has_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Dumper(monkeypatch)
    with npu.overflow_detection(tmp_path / "dump") as detection:
        pass
    with pytest.raises(DumpError):
        detection.read()


def test_it_is_switched_off_when_the_block_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Dumper(monkeypatch)
    with pytest.raises(KeyError), npu.overflow_detection(tmp_path / "dump"):
        raise KeyError
    assert device.calls[-1] == "finalize_dump"


def test_a_folder_with_something_in_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Dumper(monkeypatch)
    (tmp_path / "old").write_text("")
    with (
        pytest.raises(ArgumentError, match="not empty"),
        npu.overflow_detection(tmp_path),
    ):
        pass


def test_without_the_device_it_says_what_to_install(tmp_path: Path) -> None:
    with (
        pytest.raises(MissingExtraError, match="CANN"),
        npu.overflow_detection(tmp_path),
    ):
        pass
