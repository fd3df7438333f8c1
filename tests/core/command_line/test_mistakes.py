# SPDX-License-Identifier: Apache-2.0
"""What is answered to a mistyped command, language, script, or call for help."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from numcheck.cli import main
from numcheck.report.writing import check_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.monitor import Monitor
    from numcheck.options import Options


class IdleAdapter:
    """Watches scripts and finds nothing in them to watch; has no demonstration."""

    name = "idle"

    def demonstrate(self) -> Monitor:
        raise AssertionError

    @contextlib.contextmanager
    def watching(self, options: Options) -> Iterator[list[Monitor]]:
        del options
        yield []


@pytest.fixture(autouse=True)
def _one_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("demo", "running"):
        monkeypatch.setattr(f"numcheck.{module}.adapters", lambda: (IdleAdapter(),))


def ended(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return stopped.value.code


@pytest.mark.parametrize("arguments", [["-h"], ["fit", "-h"], ["run", "-h"]], ids=str)
def test_the_short_option_for_help_helps(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(*arguments) in (0, None)
    assert "Usage: numcheck" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "meant"), [("repot", "report"), ("format", "formats"), ("rnu", "run")]
)
def test_a_mistyped_command_is_answered_with_the_one_meant(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(typed) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_a_command_like_no_other_is_answered_without_a_guess(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended("zzzz") == 2
    error = capsys.readouterr().err
    assert "zzzz" in error
    assert "Did you mean" not in error


def test_a_language_that_is_not_spoken_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NUMCHECK_LANG", "xx")
    assert ended("formats") == 2
    assert "NUMCHECK_LANG must be one of en, zh; got 'xx'" in capsys.readouterr().err


@pytest.mark.parametrize("spoken", ["zh", "zh_CN.UTF-8", "en-GB", ""])
def test_a_language_that_is_spoken_is_taken(
    spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMCHECK_LANG", spoken)
    assert ended("range", "fp16", "1") in (0, None)


@pytest.mark.parametrize(
    ("program", "told"), [("print('x'\n", "SyntaxError"), ("1 / 0\n", "ZeroDivision")]
)
def test_a_script_that_fails_by_itself_shows_its_own_error_alone(
    tmp_path: Path, program: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(program)
    assert ended("run", str(script)) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "train.py" in error
    assert "running.py" not in error
    assert "runpy" not in error
    assert "nothing was watched" not in error


def test_a_script_that_trains_nothing_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    assert ended("run", str(tmp_path / "train.py")) == 2
    assert "nothing was watched" in capsys.readouterr().err


def test_two_arrays_are_not_two_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.npy"
    file.touch()
    assert ended("compare", str(file), str(file)) == 2
    assert "numcheck.compare(a, b)" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["demo", "run script.py"])
@pytest.mark.parametrize(
    ("output", "said"),
    [("missing/report.html", "--output"), ("report.pdf", ".html")],
    ids=["folder", "ending"],
)
def test_a_place_for_the_report_is_asked_for_before_the_training(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    output: str,
    said: str,
) -> None:
    name, *script = command.split()
    assert ended(name, "--output", str(tmp_path / output), *script) == 2
    assert said in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs Linux's /proc")
def test_a_folder_that_permissions_alone_call_writable_is_no_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir("/proc")
    assert ended("demo") == 2
    assert "cannot be written" in capsys.readouterr().err


def test_trying_a_place_leaves_what_is_there_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "old.html").write_text("old")
    check_place(tmp_path / "old.html")
    check_place(tmp_path / "new.html")
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]
