# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numcheck.cli import main
from numcheck.record import open_run
from tests.core.foreign.dumps import SAMPLES

if TYPE_CHECKING:
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


def test_the_run_folder_holds_every_step_and_rank(tmp_path: Path) -> None:
    run("import", str(SAMPLES / "ranks"), "--run", str(tmp_path / "run"))
    kept = open_run(tmp_path / "run")
    assert (kept.trace.steps, kept.trace.ranks) == ((0, 1), (0, 1))
    assert [(i.step, i.rank) for i in kept.incidents] == [(1, 0)]
    assert kept.notes == ()


def test_the_report_can_be_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    run("import", str(SAMPLES / "hidden"), "--lang", "zh")
    assert "错误[N307]" in capsys.readouterr().out
