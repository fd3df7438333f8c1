# SPDX-License-Identifier: Apache-2.0
"""`numcheck run`: scripts that know nothing of numcheck, run as a user would."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from numcheck.record.run_folder import open_run
from numcheck.report.past_run import content_of_run

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
    import sys
    import torch
    from torch import nn

    def main(shift):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(4):
            optimizer.zero_grad()
            loss = model(torch.randn(16, 4)).square().mean()
            if step == 2:
                loss = torch.log(loss - shift)
            loss.backward()
            optimizer.step()
            print(step, loss.item())

    if __name__ == "__main__":
        main(float(sys.argv[1]))
"""


def script(folder: Path, text: str = SCRIPT) -> Path:
    path = folder / "train.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def run(
    folder: Path, *arguments: str, numcheck: bool = True
) -> subprocess.CompletedProcess[str]:
    watched = ["-m", "numcheck", "run"] if numcheck else []
    return subprocess.run(
        [sys.executable, *watched, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_healthy_script_prints_what_it_prints_alone_and_exits_with_0(
    tmp_path: Path,
) -> None:
    script(tmp_path)
    alone = run(tmp_path, "train.py", "0", numcheck=False)
    watched = run(tmp_path, "train.py", "0")
    assert watched.returncode == 0, watched.stderr
    assert watched.stdout == alone.stdout
    assert "no finding" in watched.stderr


def test_a_failing_script_stops_there_and_the_report_names_its_line(
    tmp_path: Path,
) -> None:
    script(tmp_path)
    done = run(tmp_path, "--run", "kept", "train.py", "1e9")
    assert done.returncode == 1, done.stderr
    assert "error[N301]" in done.stderr
    assert "train.py:14 in main" in done.stderr
    assert "Traceback" not in done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["0", "1"]
    assert 2 in {incident.step for incident in open_run(tmp_path / "kept").incidents}


def test_a_skipped_update_lets_the_script_come_to_its_end(tmp_path: Path) -> None:
    script(tmp_path)
    done = run(tmp_path, "--on-error", "skip", "train.py", "1e9")
    assert done.returncode == 1, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("3 ")
    assert "nan" not in last


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise ValueError('a mistake of its own')", "a mistake of its own"),
        ("print(1)", "nothing was watched"),
        ("import sys; sys.exit('gone')", "gone"),
    ],
    ids=["raises", "trains nothing", "exits"],
)
def test_a_script_that_fails_or_trains_nothing_exits_with_2(
    tmp_path: Path, text: str, words: str
) -> None:
    script(tmp_path, text)
    done = run(tmp_path, "train.py")
    assert done.returncode == 2
    assert words in done.stderr
    assert "runpy" not in done.stderr


def test_a_missing_script_is_an_error_that_names_it(tmp_path: Path) -> None:
    done = run(tmp_path, "absent.py")
    assert done.returncode == 2
    assert "absent.py" in done.stderr


def test_a_module_is_run_with_its_options_untouched(tmp_path: Path) -> None:
    script(tmp_path, "import sys; print(sys.argv[1:]); import neighbour")
    (tmp_path / "neighbour.py").write_text("print('found')", encoding="utf-8")
    done = run(tmp_path, "-m", "train", "--run", "mine", "-o", "x")
    assert done.stdout == "['--run', 'mine', '-o', 'x']\nfound\n"


@pytest.mark.parametrize(
    ("given", "meant"), [("--levle", "--level"), ("--on-eror", "--on-error")]
)
def test_a_mistyped_option_is_not_taken_for_the_script(
    tmp_path: Path, given: str, meant: str
) -> None:
    script(tmp_path)
    done = run(tmp_path, given, "watch", "train.py", "0")
    assert done.returncode == 2
    assert given in done.stderr
    assert f"Did you mean '{meant}'?" in done.stderr
    assert done.stdout == ""


def test_the_script_s_own_traceback_comes_before_the_report(tmp_path: Path) -> None:
    text = SCRIPT.replace("loss.backward()", "check(loss)").replace(
        "def main(shift):",
        "def check(loss):\n        if loss.isinf() or loss.isnan():\n            "
        'raise ArithmeticError("the script\'s own")\n        loss.backward()\n\n'
        "    def main(shift):",
    )
    script(tmp_path, text)
    done = run(tmp_path, "train.py", "1e9")
    assert done.returncode == 1  # with findings
    assert "numcheck" not in done.stderr.split("ArithmeticError")[0]
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert done.stderr.index("the script's own") < done.stderr.index("error[N301]")


@pytest.mark.parametrize("asked", [True, False])
def test_experiments_are_run_unless_they_are_declined(
    tmp_path: Path, *, asked: bool
) -> None:
    script(tmp_path)
    chosen = () if asked else ("--no-experiments",)
    told = run(tmp_path, *chosen, "--run", "kept", "train.py", "1e9")
    assert told.returncode == 1, told.stderr
    ran = content_of_run(tmp_path / "kept").experiments
    assert bool(ran) is asked
