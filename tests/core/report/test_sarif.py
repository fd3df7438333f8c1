# SPDX-License-Identifier: Apache-2.0
"""The SARIF report against a published model of SARIF 2.1.0 that refuses other keys."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema

from numcheck.record.site import Site, SourceLine
from numcheck.report.content import Content
from numcheck.report.sarif import sarif_report
from tests.core.report import fixture
from tests.core.report.golden import assert_golden

Model = StaticAnalysisResultsFormatSarifVersion210JsonSchema


def content() -> Content:
    """Returns the fixture run's report."""
    return Content((fixture.overflow(),), fixture.trace(), fixture.events())


def run(content: Content, lang: str = "en") -> Any:
    """Returns the only run of a report."""
    text = sarif_report(content, lang)
    log = json.loads(text, parse_constant=lambda name: pytest.fail(f"bare {name}"))
    Model.model_validate(log)
    return log["runs"][0]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_report_is_as_it_was_seen(lang: str) -> None:
    assert_golden(f"report.{lang}.sarif", sarif_report(content(), lang))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_report_is_valid_sarif(lang: str) -> None:
    Model.model_validate_json(sarif_report(content(), lang))
    Model.model_validate_json(sarif_report(Content(()), lang))


def test_the_model_refuses_what_is_no_sarif() -> None:
    log = json.loads(sarif_report(content()))
    log["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(ValidationError):
        Model.model_validate(log)
    log["runs"][0]["results"][0] = {"ruleId": "N101"}
    with pytest.raises(ValidationError):
        Model.model_validate(log)


def test_code_flow_is_the_chain_in_order_with_what_each_link_held() -> None:
    (result,) = run(content())["results"]
    steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [s["location"]["message"]["text"] for s in steps] == [
        "input:x: +126.2 bits",
        "mlp.up mm: +3.1 bits",
        "35.mlp silu: +1.1 bits",
        "mlp.down mm: Inf",
        "_log_softmax: NaN",
        "loss: NaN",
    ]
    assert [s["importance"] for s in steps].count("essential") == 3


def test_result_points_at_the_user_s_line() -> None:
    (result,) = run(content())["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "model/mlp.py", "uriBaseId": "SRCROOT"}
    assert place["region"] == {
        "startLine": 88,
        "snippet": {"text": "return self.down(h)"},
    }


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("model/größe 1%.py", "model/gr%C3%B6%C3%9Fe%201%25.py"),
        ("<string>", "%3Cstring%3E"),
        ("/opt/lib/a b.py", "file:///opt/lib/a%20b.py"),
        (str(Path.cwd() / "here.py"), "here.py"),
    ],
    ids=["letters", "no file", "absolute", "below the working directory"],
)
def test_paths_become_uris(file: str, uri: str) -> None:
    site = Site(0, "log", "forward", source=SourceLine(file, 3))
    finding = dataclasses.replace(fixture.overflow(), site=site)
    (result,) = run(Content((finding,)))["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact["uri"] == uri


def test_rules_are_listed_once_and_results_point_at_them() -> None:
    first = fixture.overflow()
    second = dataclasses.replace(first, id="N301", severity="warning")
    second = dataclasses.replace(second, fields={"kind": "nan"})
    known = run(Content((first, second, first)))
    assert [rule["id"] for rule in known["tool"]["driver"]["rules"]] == ["N102", "N301"]
    assert [r["ruleIndex"] for r in known["results"]] == [0, 1, 0]
    assert [r["level"] for r in known["results"]] == ["error", "warning", "error"]


def test_fingerprint_stays_when_the_same_origin_fails_elsewhere() -> None:
    first = fixture.overflow()
    later = dataclasses.replace(first, step=7, rank=0, count=9)
    other = dataclasses.replace(first, id="N101", fields={"dtype": "x", "op": "y"})
    prints = [
        r["partialFingerprints"]["numcheckOrigin/v1"]
        for r in run(Content((first, later, other)))["results"]
    ]
    assert prints[0] == prints[1] != prints[2]


def test_what_was_not_watched_is_a_notification() -> None:
    known = run(Content(()))
    notices = known["invocations"][0]["toolExecutionNotifications"]
    assert "nothing was recorded" in notices[0]["message"]["text"]


def test_a_field_that_is_not_finite_leaves_valid_json() -> None:
    finding = dataclasses.replace(
        fixture.overflow(), fields={"dtype": "float16", "op": math.inf}
    )
    (result,) = run(Content((finding,)))["results"]
    assert "result of Inf left" in result["message"]["text"]
