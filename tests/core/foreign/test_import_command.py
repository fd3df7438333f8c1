# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from numcheck.cli import main
from numcheck.record import open_run
from tests.core.foreign.dumps import SAMPLES
from tests.core.foreign.test_cann import NAME, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


@pytest.mark.parametrize(
    ("name", "code"), [("causal", 0), ("hidden", 1), ("root", 1), ("ranks", 1)]
)
def test_the_exit_code_says_whether_something_was_found(
    name: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("import", str(SAMPLES / name)) == code
    assert ("no finding" in capsys.readouterr().out) == (code == 0)


def test_a_folder_that_is_no_dump_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("import", str(tmp_path)) == 2
    assert "no known dump" in capsys.readouterr().err


def test_the_run_folder_gives_the_same_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("import", str(SAMPLES / "ranks"), "--run", str(tmp_path / "run"))
    imported = capsys.readouterr().out.split("errors:")[0]
    assert run("report", str(tmp_path / "run")) == 1
    assert capsys.readouterr().out.split("errors:")[0] == imported


def test_every_output_is_written_and_lines_are_as_wide_as_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [tmp_path / "a.json", tmp_path / "b.sarif"]
    options = [word for path in outputs for word in ("-o", str(path))]
    assert run("import", str(SAMPLES / "root"), *options, "--width", "50") == 1
    assert all(json.loads(path.read_bytes()) for path in outputs)
    widths = [len(line) for line in capsys.readouterr().out.splitlines()]
    assert 40 < max(widths) <= 50


def test_the_run_folder_holds_every_step_and_rank(tmp_path: Path) -> None:
    run("import", str(SAMPLES / "ranks"), "--run", str(tmp_path / "run"))
    kept = open_run(tmp_path / "run")
    assert (kept.trace.steps, kept.trace.ranks) == ((0, 1), (0, 1))
    assert [(i.step, i.rank) for i in kept.incidents] == [(1, 0)]
    assert kept.notes == ()


def test_a_parameter_that_the_step_before_ruined_is_no_finding_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "dump"
    shutil.copytree(SAMPLES / "hidden", dump)
    run("import", str(dump))
    alone = capsys.readouterr().out.count("error[")
    shutil.copytree(dump / "step0", dump / "step1")
    file = dump / "step1/rank0/dump.json"
    later = json.loads(file.read_text())
    ruined = next(
        t for t in _tensors(later) if t["requires_grad"] and len(t["shape"]) == 2
    )
    marks = [ruined[k] for k in ("Max", "Min", "Norm")]
    for tensor in _tensors(later):
        if [tensor.get(k) for k in ("Max", "Min", "Norm")] == marks:
            tensor.update(dict.fromkeys(("Max", "Min", "Mean", "Norm"), math.nan))
    file.write_text(json.dumps(later))
    run("import", str(dump / "step1"))
    assert "error[N003]" in capsys.readouterr().out
    run("import", str(dump))
    told = capsys.readouterr().out
    assert "N003" not in told
    assert told.count("error[") == alone


def _tensors(item: Any) -> Iterator[dict[str, Any]]:
    if isinstance(item, dict):
        if "dtype" in item and "Max" in item:
            yield item
        item = list(item.values())
    if isinstance(item, list):
        for part in item:
            yield from _tensors(part)


def test_the_report_can_be_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    run("import", str(SAMPLES / "hidden"), "--lang", "zh")
    assert "错误[N307]" in capsys.readouterr().out


def test_imported_runs_compare_at_the_operator_where_they_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("causal", "hidden"):
        run("import", str(SAMPLES / name), "--run", str(tmp_path / name))
    capsys.readouterr()
    both = (str(tmp_path / "causal"), str(tmp_path / "hidden"))
    assert run("compare", *both, "--width", "200") == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    verdicts = {row[-4]: row[:-4] for row in rows if len(row) > 4}
    (parted,) = (place for place, v in verdicts.items() if v[:2] == ["NOT", "FINITE"])
    assert "Torch.softmax" in parted
    assert run("compare", both[0], both[0]) == 0


def test_records_of_the_device_are_imported_reported_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump, kept = tmp_path / "dump", str(tmp_path / "run")
    dump.mkdir()
    (dump / NAME.format(3, 1, 1700)).write_bytes(record(0x120))
    (dump / "MatMul.layer_3_mlp_MatMul.57.563.1650").write_bytes(b"")
    for arguments in (("import", str(dump), "--run", kept), ("report", kept)):
        assert run(*arguments, "--lang", "en") == 1
        told = " ".join(capsys.readouterr().out.split())
        assert "error[N602]" in told
        assert "layer_3_mlp_MatMul" in told
        assert "a conversion to float16 overflowed" in told
        assert "a float" in told
