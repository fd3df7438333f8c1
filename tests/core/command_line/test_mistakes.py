# SPDX-License-Identifier: Apache-2.0
"""What is answered to a mistyped command, language, script, or call for help."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from numcheck.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numcheck.monitor import Monitor
    from numcheck.options import Options


class IdleAdapter:
    """Watches scripts and finds nothing in them to watch."""

    name = "idle"

    @contextlib.contextmanager
    def watching(self, options: Options) -> Iterator[list[Monitor]]:
        del options
        yield []


@pytest.fixture(autouse=True)
def _one_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numcheck.running.adapters", lambda: (IdleAdapter(),))


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


@pytest.mark.parametrize(
    ("output", "said"),
    [("missing/report.html", "--output"), ("report.pdf", ".html")],
    ids=["folder", "ending"],
)
def test_the_demo_asks_for_a_place_before_it_trains(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    output: str,
    said: str,
) -> None:
    monkeypatch.setattr("numcheck.demo.adapters", tuple)
    assert ended("demo", "--output", str(tmp_path / output)) == 2
    assert said in capsys.readouterr().err
