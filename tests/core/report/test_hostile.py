# SPDX-License-Identifier: Apache-2.0
"""No data, however odd, keeps a report from being written."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema

from numcheck.measure.summary import Summary
from numcheck.record.trace import Event, Trace
from numcheck.report import card, scalars
from numcheck.report.content import Content
from numcheck.report.json_report import json_report
from numcheck.report.notebook import finding_html, summary_html, trace_html
from numcheck.report.page import page
from numcheck.report.sarif import sarif_report
from numcheck.report.terminal import terminal_report
from tests.core.report import fixture
from tests.core.report.inspection import acting
from tests.core.report.test_interchange import (
    FIELDS,
    FINDINGS,
    NAMES,
    SITES,
    SUMMARIES,
    lists,
)
from tests.core.report.test_json_report import SCHEMA
from tests.core.report.test_page import Reader

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding


@pytest.fixture(autouse=True)
def lenient_messages(strict_messages: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Falls back to keys, as for a user: the ids here are made up."""
    monkeypatch.delenv("NUMCHECK_STRICT_MESSAGES")


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Draws a trace whose numbers may mean nothing at all."""
    sites = draw(lists(SITES))
    numbered = tuple(
        dataclasses.replace(s, index=i, parents=()) for i, s in enumerate(sites)
    )
    steps = draw(st.lists(st.integers(0, 2**40), max_size=3, unique=True))
    measured = {
        (step, draw(st.integers(0, 3))): {
            i: draw(SUMMARIES) for i in range(len(numbered))
        }
        for step in steps
    }
    value = st.floats() | NAMES
    events = draw(lists(st.builds(Event, NAMES, st.integers(0, 2**40), value)))
    return Trace(numbered, measured, events, {"framework": draw(NAMES)})


CONTENTS = st.builds(
    Content,
    lists(FINDINGS),
    st.none() | traces(),
    lists(st.builds(Event, NAMES, st.integers(0, 99), st.floats() | NAMES)),
    FIELDS,
    departures=st.none() | st.dictionaries(st.integers(0, 3), st.floats()),
    unread=lists(NAMES),
)
FUZZED = settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@FUZZED
@given(CONTENTS, st.sampled_from(["en", "zh"]))
def test_terminal_report_is_printable(content: Content, lang: str) -> None:
    shown = terminal_report(content, lang, 80, colour=False)
    assert acting(shown) == []


@FUZZED
@given(CONTENTS)
def test_page_keeps_its_shape(content: Content) -> None:
    seen = Reader(page(content, "en"))
    assert len(seen.scripts) == 2
    assert len(seen.data["sites"]) == (len(content.trace.sites) if content.trace else 0)
    assert {tag for tag, _ in seen.tags}.isdisjoint({"img", "iframe", "link", "object"})


@FUZZED
@given(CONTENTS)
def test_json_and_sarif_stay_valid(content: Content) -> None:
    document = json.loads(json_report(content), parse_constant=pytest.fail)
    for finding in document["findings"]:
        finding["id"] = "N101"  # the ids drawn here are no ids
    jsonschema.validate(document, SCHEMA)
    log = json.loads(sarif_report(content), parse_constant=pytest.fail)
    StaticAnalysisResultsFormatSarifVersion210JsonSchema.model_validate(log)


@FUZZED
@given(FINDINGS, traces())
def test_tools_take_anything(finding: Finding, trace: Trace) -> None:
    scalars(trace)
    for written in (finding_html(finding), trace_html(trace)):
        assert "<script" not in written


@pytest.mark.parametrize(
    "odd",
    [
        {"amax": -1.0},
        {"amax": float("nan")},
        {"amax": float("inf")},
        {"n": 2**70, "nan": 2**70},
        {"n": -1, "nan": -5},
        {"exponents": {10**12: 3, -(10**12): 4}},
        {"exponents": {0: -7}},
        {"exponents": {}},
    ],
    ids=str,
)
def test_numbers_that_mean_nothing_are_survived(odd: dict[str, Any]) -> None:
    summary = Summary(**{"n": 4, "nan": 0, "pos_inf": 0, "neg_inf": 0, **odd})
    trace = Trace(fixture.sites(), {(0, 0): {2: summary, 4: summary}})
    finding = dataclasses.replace(
        fixture.overflow(),
        facts=tuple(
            dataclasses.replace(f, summary=summary) for f in fixture.overflow().facts
        ),
        chain=tuple((s, summary) for s in fixture.sites()),
    )
    content = Content((finding,), trace)
    assert card(finding, "en", 80)
    assert summary_html(summary)
    assert len(page(content, "en")) < 200_000
    json.loads(json_report(content), parse_constant=pytest.fail)
    json.loads(sarif_report(content), parse_constant=pytest.fail)
    scalars(trace)
