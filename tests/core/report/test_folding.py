# SPDX-License-Identifier: Apache-2.0
"""A chain leaves out what only hands on; headroom is told where it says something."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import pytest

from numcheck.diagnose.finding import Evidence, Fact, Finding
from numcheck.measure.summary import Summary
from numcheck.record.site import Site, SourceLine
from numcheck.report import card
from numcheck.report.chain import chain_links
from numcheck.report.content import Content
from numcheck.report.prose import Prose
from numcheck.report.sarif import sarif_report

NAN = Summary(n=4, nan=4, pos_inf=0, neg_inf=0, low=math.nan, high=math.nan)
FINE = Summary(n=4, nan=0, pos_inf=0, neg_inf=0, low=-1.0, high=1.0, amax=1.0)
ORIGIN = Site(1, "aten.log.default", "forward", dtype="float32", parents=(0,))


def moved(index: int, op: str, parent: int) -> Site:
    return Site(index, op, "forward", effect="move", dtype="float32", parents=(parent,))


def finding(*chain: tuple[Site, Summary]) -> Finding:
    return Finding("N301", "error", ORIGIN, 3, "nan", chain=chain)


def words(found: Finding) -> list[str]:
    return [link.text for link in Prose(found, "en").chain()]


def test_a_value_handed_on_unchanged_is_one_link() -> None:
    relu = Site(0, "aten.relu.default", "forward", dtype="float32")
    loss = Site(4, "loss", "forward", "kept", "loss", "move", dtype="float32")
    detach, view = moved(2, "aten.detach.default", 1), moved(3, "aten.view.default", 2)
    chain = ((relu, FINE), (ORIGIN, NAN), (detach, NAN), (view, NAN), (loss, NAN))
    assert words(finding(*chain)) == ["relu +128.0", "log NaN (born here)", "loss NaN"]


def test_a_move_that_lost_the_fault_keeps_its_link() -> None:
    chain = ((ORIGIN, NAN), (moved(2, "aten.slice.Tensor", 1), FINE))
    assert words(finding(*chain)) == ["log NaN (born here)", "slice +128.0"]


def test_a_move_of_several_values_keeps_its_link() -> None:
    joined = dataclasses.replace(moved(2, "aten.cat.default", 1), parents=(1, 0))
    assert len(words(finding((ORIGIN, NAN), (joined, NAN)))) == 2


def test_an_origin_that_moves_keeps_its_link() -> None:
    relu = Site(0, "aten.relu.default", "forward", dtype="float32")
    taken = moved(1, "aten.index.Tensor", 0)
    found = dataclasses.replace(finding((relu, NAN), (taken, NAN)), site=taken)
    assert [site.op for site, _ in chain_links(found)] == [relu.op, taken.op]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("rule", "told"), [("N301", "–"), ("N303", "–"), ("N101", "<0 bits")]
)
def test_headroom_below_zero_is_told_of_overflow_alone(rule: str, told: str) -> None:
    infinite = dataclasses.replace(FINE, pos_inf=1, high=math.inf)
    fact = Fact("output", "y", "float32", infinite)
    found = dataclasses.replace(
        finding(),
        id=rule,
        facts=(fact,),
        fields={"kind": "+inf", "op": "div", "dtype": "float32", "max": 1.0},
    )
    (row,) = [r for r in card(found, "en", 100).splitlines() if r.startswith("output")]
    assert re.search(rf"≥1\.00e\+00 +{told} +1 ", row)


@pytest.mark.parametrize(("n", "lines"), [(4, 1), (5, 2)])
def test_a_count_told_with_its_place_is_not_told_twice(n: int, lines: int) -> None:
    counts = {"nan": 1, "inf": 0}
    pieces = (
        Evidence("bad_elements", {**counts, "n": 4}),
        Evidence("data_N011", {**counts, "n": n, "place": "x[3]"}),
    )
    found = dataclasses.replace(finding(), evidence=pieces)
    told = [text for _, text in Prose(found, "en").evidence()]
    assert len(told) == lines
    assert told[-1].endswith("the first at x[3]")


def bad_batch(*after: Site) -> Finding:
    """Returns the finding of a batch that held NaN, with what read it."""
    batch = Site(0, "input:x", "data", kind="source", role="input", dtype="float32")
    broken = Summary(n=4, nan=1, pos_inf=0, neg_inf=0)
    links = tuple((site, broken) for site in (batch, *after))
    fields = {"op": "input:x", "kind": "nan"}
    return Finding("N001", "error", batch, 3, "nan", fields=fields, chain=links)


def test_a_batch_is_placed_at_the_line_that_read_it() -> None:
    line = SourceLine("model.py", 7, "forward", "h = self.first(x)")
    view = Site(1, "aten.view.default", "forward", parents=(0,))
    read = Site(2, "aten.mm.default", "forward", source=line, parents=(1,))
    found = bad_batch(view, read)
    shown = card(found, lang="en", colour=False)
    assert "--> input:x, first read at model.py:7 in forward" in shown
    assert "首次读取于 model.py:7" in card(found, lang="zh", colour=False)
    (result,) = json.loads(sarif_report(Content((found,), None), "en"))["runs"][0][
        "results"
    ]
    place = result["locations"][0]["physicalLocation"]
    assert place["region"]["startLine"] == 7


def test_a_batch_that_no_known_line_read_is_placed_by_its_name() -> None:
    for found in (bad_batch(), bad_batch(Site(1, "mm", "forward", parents=(0,)))):
        assert "  --> input:x\n" in card(found, lang="en", colour=False)
