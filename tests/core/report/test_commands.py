# SPDX-License-Identifier: Apache-2.0
"""`numcheck report` and `numcheck explain`: output, exit codes, bad input."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner

from numcheck.cli import main
from numcheck.diagnose.incident_json import incident_to_json
from numcheck.errors import ArgumentError
from numcheck.record.run_folder import RunWriter
from numcheck.report.commands import explain, report, triage
from numcheck.report.explaining import explanation, rule_ids, rule_list
from numcheck.report.past_run import content_of_run
from tests.core.diagnose.story import Story
from tests.core.report import fixture

if TYPE_CHECKING:
    from pathlib import Path

    from numcheck.diagnose.incident import Incident


def logarithm_of_zero(step: int) -> Incident:
    """Returns a step whose loss is the logarithm of zero."""
    story = Story(step)
    x = story.source("input", np.array([1.0, 0.0], np.float32))
    y = story.op("log", np.log, x, op="log")
    story.keep("loss", story.op("sum", np.sum, y, op="reduce_sum"))
    return story.incident()


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    """Returns a run folder with one failing step, kept twice."""
    writer = RunWriter(tmp_path / "run", meta={"framework": "test"})
    writer.trace.events(fixture.events())
    for step in (7, 8):
        incident = logarithm_of_zero(step)
        writer.incident(step, incident.trace, incident_to_json(incident))
    return tmp_path / "run"


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    """Returns a run folder in which nothing failed."""
    writer = RunWriter(tmp_path / "fine", meta={"framework": "test"})
    writer.trace.trace(logarithm_of_zero(0).trace)
    return tmp_path / "fine"


def test_a_run_that_failed_is_diagnosed_and_exits_with_one(failed: Path) -> None:
    shown = CliRunner().invoke(report, [str(failed), "--lang", "en"])
    assert shown.exit_code == 1
    assert shown.output.startswith("error[N301]: logarithm of zero")
    assert "failures of this origin in a row: 2" in shown.output
    assert "errors: 1" in shown.output


def test_a_healthy_run_exits_with_zero_and_says_what_was_watched(
    healthy: Path,
) -> None:
    shown = CliRunner().invoke(report, [str(healthy), "--lang", "en"])
    assert shown.exit_code == 0
    assert "no finding" in shown.output
    assert "what was watched" in shown.output


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_files_are_written_beside_the_terminal_report(failed: Path, lang: str) -> None:
    outputs = [failed / f"out.{ending}" for ending in ("html", "json", "sarif")]
    options = [part for path in outputs for part in ("-o", str(path))]
    shown = CliRunner().invoke(report, [str(failed), *options, "--lang", lang])
    assert shown.exit_code == 1
    assert outputs[0].read_text("utf-8").startswith("<!doctype html>")
    document = json.loads(outputs[1].read_text("utf-8"))
    assert document["findings"][0]["id"] == "N301"
    assert document["language"] == lang
    assert json.loads(outputs[2].read_text("utf-8"))["version"] == "2.1.0"


def test_triage_writes_the_same_files_as_report(failed: Path, tmp_path: Path) -> None:
    written = []
    for command in (report, triage):
        path = tmp_path / f"{command.name}.json"
        shown = CliRunner().invoke(command, [str(failed), "-o", str(path)])
        assert shown.exit_code == 1
        written.append(json.loads(path.read_text("utf-8")))
    assert written[0] == written[1]


def test_steps_and_events_of_the_run_reach_the_report(failed: Path) -> None:
    content = content_of_run(failed)
    assert content.trace is not None
    assert content.trace.steps == (7, 8)
    assert {event.name for event in content.events} >= {"loss", "gradient_norm"}


def test_a_damaged_incident_is_named_and_hides_no_other(failed: Path) -> None:
    (listed,) = failed.rglob("incidents.jsonl")
    first, second = listed.read_text("utf-8").splitlines()
    damaged = {**json.loads(first), "experiments": 3}
    listed.write_text(f"{json.dumps(damaged)}\n{second}\n", "utf-8")
    shown = CliRunner().invoke(report, [str(failed), "--lang", "en"])
    assert shown.exit_code == 1
    assert "could not be read: incident of step 7" in " ".join(shown.output.split())
    assert "error[N301]" in shown.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "no/such/folder"],
        ["report", "{run}", "-o", "report.pdf"],
        ["report", "{run}", "--width", "3"],
        ["report"],
        ["explain", "N999x"],
    ],
    ids=["missing folder", "ending", "width", "no folder", "no such rule"],
)
def test_bad_input_exits_with_two(
    failed: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([a.format(run=failed) for a in arguments])
    assert ended.value.code == 2
    assert capsys.readouterr().err
    assert not list(failed.rglob("*.pdf"))


def test_output_without_a_terminal_has_no_escape_codes(failed: Path) -> None:
    plain = CliRunner().invoke(report, [str(failed)]).output
    coloured = CliRunner().invoke(report, [str(failed), "--colour"], color=True).output
    assert "\x1b" not in plain
    assert "\x1b" in coloured


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_rule_is_listed_with_its_name(lang: str) -> None:
    lines = rule_list(lang=lang, width=100).splitlines()
    assert [line.split()[0] for line in lines] == list(rule_ids())
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines)


@pytest.mark.parametrize("rule", rule_ids())
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_rule_is_explained(rule: str, lang: str) -> None:
    page = explanation(rule, lang=lang)
    assert rule in page.splitlines()[0]
    assert "\x1b" not in page


def test_explain_takes_an_id_in_either_case() -> None:
    shown = CliRunner().invoke(explain, ["n102"])
    assert shown.exit_code == 0
    assert "N102" in shown.output


def test_an_unknown_rule_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ArgumentError, match=r"N10\d.*lists all"):
        explanation("N10")
