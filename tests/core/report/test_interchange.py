# SPDX-License-Identifier: Apache-2.0
"""Findings survive the way to JSON and back, and nothing else is taken for one."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcheck.diagnose.finding import (
    Advice,
    Cause,
    CauseClass,
    Certainty,
    Evidence,
    Fact,
    FaultKind,
    Finding,
    Severity,
)
from numcheck.errors import ArgumentError
from numcheck.measure.summary import Summary
from numcheck.record.site import Phase, Site, SourceLine
from numcheck.report import finding_from_json, finding_to_json
from tests.core.report import fixture

NAMES = st.text(max_size=12)
COUNTS = st.none() | st.integers(0, 2**53)
NUMBERS = st.none() | st.floats()
# The three names of numbers that are not finite cannot stand for themselves.
WORDS = NAMES.filter(lambda word: word not in ("NaN", "Inf", "-Inf"))
FIELDS = st.dictionaries(NAMES, WORDS | st.integers() | st.floats(), max_size=3)
SUMMARIES = st.builds(
    Summary,
    n=st.integers(0, 2**40),
    nan=COUNTS,
    pos_inf=COUNTS,
    neg_inf=COUNTS,
    zero=COUNTS,
    subnormal=COUNTS,
    low=NUMBERS,
    high=NUMBERS,
    amax=NUMBERS,
    amin=NUMBERS,
    total=NUMBERS,
    total_sq=NUMBERS,
    exponents=st.none() | st.dictionaries(st.integers(-1074, 1023), st.integers(0)),
)
LINES = st.builds(SourceLine, NAMES, st.integers(0, 9999), NAMES, NAMES)
SITES = st.builds(
    Site,
    st.integers(0, 99),
    NAMES,
    st.sampled_from(get_args(Phase)),
    st.sampled_from(["source", "operator", "kept"]),
    output=st.integers(0, 3),
    dtype=NAMES,
    shape=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    scope=NAMES,
    source=st.none() | LINES,
    parents=st.tuples(st.integers(0, 9)),
    literals=st.sampled_from([(), ("nan",), ("+inf", "-inf")]),
    iteration=st.sampled_from([(), (0,), (3, 1)]),
    detail=st.lists(st.tuples(NAMES, WORDS | st.floats()), max_size=2).map(tuple),
)


def lists(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Returns tuples of up to two of the items."""
    return st.lists(items, max_size=2).map(tuple)


FINDINGS = st.builds(
    Finding,
    NAMES,
    st.sampled_from(get_args(Severity)),
    SITES,
    st.integers(0, 10**9),
    st.sampled_from(get_args(FaultKind)),
    rank=st.integers(0, 9),
    fields=FIELDS,
    facts=lists(
        st.builds(Fact, st.sampled_from(["input", "output"]), NAMES, NAMES, SUMMARIES)
    ),
    chain=lists(st.tuples(SITES, st.none() | SUMMARIES)),
    harm=lists(SITES),
    evidence=lists(st.builds(Evidence, NAMES, FIELDS, st.booleans())),
    cause=st.none()
    | st.builds(
        Cause,
        st.sampled_from(get_args(CauseClass)),
        NAMES,
        st.sampled_from(get_args(Certainty)),
        FIELDS,
    ),
    help=lists(
        st.builds(
            Advice, NAMES, st.sampled_from(get_args(Certainty)), FIELDS, st.booleans()
        )
    ),
    reproduced=st.sampled_from([None, True, False]),
    masked=lists(SITES),
    count=st.integers(1, 9),
)


@given(FINDINGS)
def test_a_finding_read_back_is_the_finding_written(finding: Finding) -> None:
    written = json.dumps(finding_to_json(finding), allow_nan=False)
    # repr, because a NaN is not equal to itself and an integer is to a float
    assert repr(finding_from_json(json.loads(written))) == repr(finding)


def test_the_fixture_s_finding_is_read_back() -> None:
    written = json.dumps(finding_to_json(fixture.overflow()), allow_nan=False)
    assert repr(finding_from_json(json.loads(written))) == repr(fixture.overflow())


@pytest.mark.parametrize(
    ("number", "name"), [(math.nan, "NaN"), (math.inf, "Inf"), (-math.inf, "-Inf")]
)
def test_numbers_that_are_not_finite_are_written_as_strings(
    number: float, name: str
) -> None:
    evidence = (Evidence("grew", {"last": number}),)
    site = Site(0, "log", "forward")
    row = finding_to_json(Finding("N301", "error", site, 0, "nan", evidence=evidence))
    assert row["evidence"][0]["fields"] == {"last": name}


def broken(**changes: Any) -> Any:
    """Returns a written finding with some keys replaced; None takes a key away."""
    row = {**finding_to_json(fixture.overflow()), **changes}
    return {key: value for key, value in row.items() if value is not None}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (broken(site=None), "site"),
        (broken(severity="fatal"), "severity must be one of error, warning, note"),
        (broken(kind="bad"), "kind must be one of nan"),
        (broken(chain=[{"site": {}}]), "Site"),
        (broken(facts=3), "not iterable"),
        (broken(cause={"cls": "magic", "rule": "", "certainty": "likely"}), "cls must"),
        ([], "list"),
        (None, "NoneType"),
        ("N101", "str"),
    ],
    ids=[
        "no site",
        "severity",
        "kind",
        "chain",
        "facts",
        "cause",
        "list",
        "null",
        "str",
    ],
)
def test_what_is_no_finding_is_an_error_that_says_why(row: Any, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        finding_from_json(row)


def test_keys_of_a_later_version_are_ignored() -> None:
    row = finding_to_json(fixture.overflow())
    later = {**row, "mood": "bad", "site": {**row["site"], "mood": "worse"}}
    assert repr(finding_from_json(later)) == repr(fixture.overflow())
