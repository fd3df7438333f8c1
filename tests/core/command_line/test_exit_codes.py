# SPDX-License-Identifier: Apache-2.0
"""Every command exits with 0 when clean, 1 with findings, 2 on an error."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import numcheck.adapters
import numcheck.cli
import numcheck.doctor
from numcheck.cli import COMMANDS, main
from numcheck.diagnose import diagnose
from numcheck.diagnose.incident_json import incident_to_json
from numcheck.doctor import Check
from numcheck.monitor import Monitor
from numcheck.options import Options
from numcheck.record import RunWriter
from tests.core.diagnose.story import Story
from tests.core.foreign.dumps import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.diagnose import Finding, Incident


def step(values: list[float], number: int = 0) -> Incident:
    """Returns a step whose loss is the sum of the logarithms of its batch."""
    story = Story(number)
    x = story.source("input", np.array(values, np.float32))
    y = story.op("log", np.log, x, op="log")
    story.keep("loss", story.op("sum", np.sum, y, op="reduce_sum"))
    return story.incident()


class FakeAdapter:
    """Watches a script that trains nothing itself: the step is told by its name."""

    name = "fake"

    def __init__(self, finding: Finding | None = None) -> None:
        self.finding = finding

    def examine(self) -> list[Check]:
        return [Check("fake", "problem" if self.finding else "ok", "a device")]

    def demonstrate(self) -> Monitor:
        return self._monitor(Options(on_error="record"))

    @contextlib.contextmanager
    def watching(self, options: Options) -> Iterator[list[Monitor]]:
        yield [self._monitor(options)]

    def _monitor(self, options: Options) -> Monitor:
        monitor = Monitor(dataclasses.replace(options, on_error="record"))
        if self.finding is not None:
            monitor.deliver([self.finding])
        return monitor


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, str]:
    """Returns files and folders that are clean and that are not."""
    for name, values in (("healthy", [1.0, 2.0]), ("failed", [1.0, 0.0])):
        incident = step(values)
        writer = RunWriter(tmp_path / name, meta={"framework": "test"})
        writer.trace.trace(incident.trace)
        if name == "failed":
            writer.incident(0, incident.trace, incident_to_json(incident))
    ordinary = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)
    np.save(tmp_path / "clean.npy", ordinary)
    np.save(tmp_path / "bad.npy", np.where(ordinary > 2, np.nan, ordinary))
    (tmp_path / "script.py").write_text("x = 1\n", "utf-8")
    (tmp_path / "broken.py").write_text("raise ValueError\n", "utf-8")
    names = ("healthy", "failed", "clean.npy", "bad.npy", "script.py", "broken.py")
    held = {name.partition(".")[0]: str(tmp_path / name) for name in names}
    return held | {
        "page": str(tmp_path / "out.html"),
        "causal": str(SAMPLES / "causal"),
        "batch": str(SAMPLES / "batch"),
    }


# For each command: arguments that end clean, with findings, and with an error. A
# command that only tells something has no findings.
CALLS: dict[str, tuple[str, str | None, str]] = {
    "compare": ("{healthy} {healthy}", "{healthy} {failed}", "{healthy} missing"),
    "data": ("{clean}", "{bad}", "missing.npy"),
    "demo": ("--output {page}", None, "--framework none"),
    "doctor": ("", "", "--no-such-option"),
    "explain": ("N101", None, "N999"),
    "fit": ("{clean}", None, "missing.npy"),
    "formats": ("fp16", None, "float17"),
    "import": ("{causal}", "{batch}", "missing"),
    "profiles": ("", None, "no-such-device"),
    "range": ("fp16 1", None, "fp16 many"),
    "report": ("{healthy}", "{failed}", "missing"),
    "run": ("{script}", "{script}", "{broken}"),
    "triage": ("{healthy}", "{failed}", "missing"),
}


def ending(command: str, arguments: str, inputs: dict[str, str]) -> int | str | None:
    """Returns the exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main([command, *(word.format(**inputs) for word in arguments.split())])
    return ended.value.code


def installed(monkeypatch: pytest.MonkeyPatch, finding: Finding | None) -> None:
    """Makes one stand-in the only adapter that is installed."""
    for module in ("adapters", "demo", "doctor", "running"):
        monkeypatch.setattr(
            f"numcheck.{module}.adapters", lambda: (FakeAdapter(finding),)
        )


def test_every_command_is_tried_here() -> None:
    assert CALLS.keys() == COMMANDS.keys()


@pytest.mark.parametrize("command", sorted(CALLS))
def test_clean_ends_with_zero(
    command: str, inputs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, None)
    assert ending(command, CALLS[command][0], inputs) in (0, None)


@pytest.mark.parametrize("command", sorted(c for c in CALLS if CALLS[c][1] is not None))
def test_findings_end_with_one(
    command: str, inputs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (finding,) = diagnose(step([1.0, 0.0]))
    installed(monkeypatch, finding)
    assert ending(command, str(CALLS[command][1]), inputs) == 1


@pytest.mark.parametrize("command", sorted(CALLS))
def test_an_error_ends_with_two_and_is_told_on_standard_error(
    command: str,
    inputs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    installed(monkeypatch, None)
    assert ending(command, CALLS[command][2], inputs) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "told"),
    [(PermissionError("no entry"), "no entry"), (ZeroDivisionError(), "Traceback")],
    ids=["of the system", "of our own"],
)
def test_a_failure_nobody_foresaw_is_no_finding(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(numcheck.cli.cli, "main", fail)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), pytest.raises(SystemExit) as ended:
        main(["formats"])
    assert ended.value.code == 2
    assert told in said.getvalue()


@pytest.mark.parametrize(("lang", "said"), [("en", "logarithm"), ("zh", "对数")])
def test_run_tells_its_report_in_the_language_asked_for(
    lang: str,
    said: str,
    inputs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    installed(monkeypatch, diagnose(step([1.0, 0.0]))[0])
    assert ending("run", f"--lang {lang} {{script}}", inputs) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("before", [None, "en"])
def test_what_is_said_while_a_script_runs_is_in_the_language_asked_for(
    before: str | None,
    inputs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    installed(monkeypatch, None)
    monkeypatch.delenv("NUMCHECK_LANG", raising=False)
    if before is not None:
        monkeypatch.setenv("NUMCHECK_LANG", before)
    Path(inputs["script"]).write_text(
        "from numcheck.report.messages import text\nprint(text('report.phase.data'))\n",
        "utf-8",
    )
    assert ending("run", "--lang zh {script}", inputs) in (0, None)
    assert "数据" in capsys.readouterr().out
    assert os.environ.get("NUMCHECK_LANG") == before


def test_a_script_that_empties_its_environment_is_still_reported(
    inputs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, None)
    monkeypatch.delenv("NUMCHECK_LANG", raising=False)
    script = "import os\nos.environ.pop('NUMCHECK_LANG')\n"
    Path(inputs["script"]).write_text(script, "utf-8")
    assert ending("run", "--lang zh {script}", inputs) in (0, None)


def test_a_script_that_goes_to_another_folder_takes_no_report_with_it(
    tmp_path: Path, inputs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    Path(inputs["script"]).write_text("import os\nos.chdir('elsewhere')\n", "utf-8")
    assert ending("run", "--run folder -o out.html {script}", inputs) in (0, None)
    assert (tmp_path / "out.html").is_file()
    assert list((tmp_path / "folder").rglob("meta.json"))


def test_a_folder_is_run_as_python_runs_it(
    tmp_path: Path,
    inputs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    installed(monkeypatch, None)
    (tmp_path / "beside.py").write_text("said = 'heard'\n")
    (tmp_path / "__main__.py").write_text("import beside\nprint(beside.said)\n")
    assert ending("run", str(tmp_path), inputs) in (0, None)
    assert "heard" in capsys.readouterr().out


def test_a_training_that_is_stopped_by_hand_is_reported(
    inputs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    installed(monkeypatch, diagnose(step([1.0, 0.0]))[0])
    Path(inputs["script"]).write_text("raise KeyboardInterrupt", "utf-8")
    assert ending("run", "{script}", inputs) == 130
    assert "error[N301]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "own"),
    [("sys.exit(3)", 3), ("sys.exit('no')", 1), ("sys.exit(True)", 1), ("1 / 0", 1)],
)
def test_the_script_s_own_exit_code_is_told(
    program: str,
    own: int,
    inputs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    installed(monkeypatch, None)
    Path(inputs["script"]).write_text(f"import sys\n{program}\n", "utf-8")
    assert ending("run", "{script}", inputs) == 2
    (told,) = [x for x in capsys.readouterr().err.splitlines() if "exit code" in x]
    assert f"exit code {own};" in told
    assert "ends with 2" in told


@pytest.mark.parametrize("program", ["", "sys.exit()", "sys.exit(0)"])
def test_a_script_that_ends_well_is_told_nothing_of_its_exit_code(
    program: str,
    inputs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    installed(monkeypatch, None)
    Path(inputs["script"]).write_text(f"import sys\n{program}\n", "utf-8")
    assert ending("run", "{script}", inputs) in (0, None)
    assert "exit code" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "demo"])
def test_a_report_that_cannot_be_written_is_read_first(
    command: str,
    inputs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    installed(monkeypatch, diagnose(step([1.0, 0.0]))[0])
    script = "{script}" if command == "run" else ""
    # After it was tried, something takes the place.
    for module in ("demo", "report.writing"):
        monkeypatch.setattr(f"numcheck.{module}.check_place", lambda path: path.mkdir())
    assert ending(command, f"--output {{page}} {script}", inputs) == 2
    told = capsys.readouterr()
    assert "error[N301]" in told.out + told.err
    assert "cannot be written" in told.err
