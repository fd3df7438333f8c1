# SPDX-License-Identifier: Apache-2.0
"""The JSON report keeps to its published schema and gives the findings back."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from numcheck.errors import ArgumentError
from numcheck.record.trace import Event
from numcheck.report import findings_from_json
from numcheck.report.content import Content
from numcheck.report.json_report import json_report
from tests.core.report import fixture
from tests.core.report.golden import assert_golden

SCHEMA = json.loads(
    (files("numcheck.report") / "report.schema.json").read_text("utf-8")
)


def content() -> Content:
    """Returns the fixture run's report."""
    return Content(
        (fixture.overflow(),),
        fixture.trace(),
        (*fixture.events(), Event("loss", 1861, math.inf)),
        {"framework": "torch", "lr": math.nan, "autocast": True},
        fixture.experiments(),
    )


def strict(text: str) -> Any:
    """Returns the document; a bare NaN or Infinity in it is an error."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"bare {name}"))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_report_is_as_it_was_seen(lang: str) -> None:
    assert_golden(f"report.{lang}.json", json_report(content(), lang))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_report_keeps_to_the_published_schema(lang: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(strict(json_report(content(), lang)), SCHEMA)
    jsonschema.validate(strict(json_report(Content(()), lang)), SCHEMA)


def test_schema_refuses_what_is_no_report() -> None:
    document = strict(json_report(content()))
    document["findings"][0]["severity"] = "fatal"
    with pytest.raises(jsonschema.ValidationError, match="fatal"):
        jsonschema.validate(document, SCHEMA)


def test_findings_are_read_back_from_the_report() -> None:
    (found,) = findings_from_json(json_report(content()))
    assert repr(found) == repr(fixture.overflow())


def test_numbers_that_are_not_finite_are_kept_as_strings() -> None:
    document = strict(json_report(content()))
    losses = [e["value"] for e in document["events"] if e["name"] == "loss"]
    assert losses[-2:] == ["NaN", "Inf"]
    assert document["settings"]["lr"] == "NaN"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a report of numcheck"),
        ('{"tool": "other"}', "not a report of numcheck"),
        ('{"tool": "numcheck", "schema_version": 99}', "reads up to 1"),
        ('{"tool": "numcheck"}', "None"),
        ('{"tool": "numcheck", "schema_version": 1, "findings": [{}]}', "finding"),
    ],
    ids=["empty", "deep", "list", "foreign", "later", "no version", "no finding"],
)
def test_another_document_is_an_error_that_says_why(text: str, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        findings_from_json(text)
