# SPDX-License-Identifier: Apache-2.0
"""Notebooks, TensorBoard and W&B get the numbers that were measured."""

from __future__ import annotations

import dataclasses
import html.parser
import math
from typing import Any

import pytest

from numcheck.formats import get
from numcheck.measure.summary import Summary
from numcheck.record.site import Site
from numcheck.record.trace import Trace
from numcheck.report import log_trace, scalars
from numcheck.report.notebook import (
    finding_html,
    format_html,
    summary_html,
    trace_html,
)
from tests.core.report import fixture

LAST = fixture.STEPS[-1]


class Writer:
    """Keeps what a scalar writer is given."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, int], float] = {}

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        assert (tag, global_step) not in self.seen
        self.seen[tag, global_step] = scalar_value


class HistogramWriter(Writer):
    """Keeps histograms as well."""

    def __init__(self) -> None:
        super().__init__()
        self.histograms: dict[tuple[str, int], dict[str, Any]] = {}

    def add_histogram_raw(self, tag: str, **values: Any) -> None:
        self.histograms[tag, values.pop("global_step")] = values


def test_scalars_are_headroom_counts_and_what_was_read() -> None:
    values = scalars(fixture.trace())[LAST]
    silu = "numcheck/headroom/decoder.layers.35.mlp/aten.silu.default.3"
    down = "decoder.layers.35.mlp.down/aten.mm.default.4"
    assert values[silu] == pytest.approx(math.log2(65504 / 30720))
    assert values[f"numcheck/headroom/{down}"] == -math.inf
    assert values[f"numcheck/inf/{down}"] == 12
    assert values["numcheck/nan/loss"] == 1
    assert math.isnan(values["numcheck/loss"])
    assert values["numcheck/gradient_norm"] == 1.5**8
    assert "numcheck/note" not in values


def test_healthy_sites_log_no_counts() -> None:
    values = scalars(fixture.trace())[fixture.STEPS[0]]
    assert not [tag for tag in values if "/nan/" in tag or "/inf/" in tag]


def test_every_recorded_site_has_a_tag_of_its_own() -> None:
    twice = tuple(Site(i, "mul", "forward", dtype="float16") for i in range(2))
    held = Summary(n=1, nan=0, pos_inf=0, neg_inf=0, amax=1.0)
    (values,) = scalars(Trace(twice, {(0, 0): {0: held, 1: held}})).values()
    assert len(values) == 2


def test_other_ranks_are_left_out() -> None:
    assert scalars(fixture.trace(), rank=1) == {}


def test_a_writer_gets_every_scalar_once() -> None:
    writer = Writer()
    log_trace(fixture.trace(), writer)
    expected = {
        (tag, step): value
        for step, values in scalars(fixture.trace()).items()
        for tag, value in values.items()
    }
    assert repr(sorted(writer.seen.items())) == repr(sorted(expected.items()))


def test_a_writer_of_histograms_gets_the_exponents() -> None:
    writer = HistogramWriter()
    log_trace(fixture.trace(), writer)
    silu = "numcheck/exponents/decoder.layers.35.mlp/aten.silu.default.3"
    drawn = writer.histograms[silu, LAST]
    assert drawn["num"] == sum(drawn["bucket_counts"]) == 16380
    assert drawn["bucket_limits"] == list(range(-4, 16))
    assert len(drawn["bucket_counts"]) == len(drawn["bucket_limits"])
    assert (drawn["min"], drawn["max"]) == (-5, 15)


def test_a_logging_function_gets_each_step_s_dictionary_once() -> None:
    logged: dict[int, dict[str, float]] = {}

    def log(values: dict[str, float], step: int) -> None:
        assert step not in logged
        logged[step] = values

    log_trace(fixture.trace(), log)
    assert repr(logged) == repr(scalars(fixture.trace()))


def test_earlier_steps_are_left_to_earlier_calls() -> None:
    writer = HistogramWriter()
    log_trace(fixture.trace(), writer, since=LAST)
    assert {step for _, step in writer.seen} == {LAST}
    assert {step for _, step in writer.histograms} == {LAST}


class Balance(html.parser.HTMLParser):
    """Counts tags that were opened and not closed, and keeps the text."""

    def __init__(self, written: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(written)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = "<script>alert(1)</script>&amp;"


def test_notebook_shows_every_kind_of_thing() -> None:
    shown = {
        "error[N102]": finding_html(fixture.overflow()),
        "12": summary_html(fixture.measured(LAST)[4]),
        "65504": format_html(get("fp16")),
        "10 sites, 9 steps": trace_html(fixture.trace()),
    }
    for expected, written in shown.items():
        seen = Balance(written)
        assert expected in seen.text
        assert seen.open == []


def test_notebook_escapes_names() -> None:
    sites = tuple(
        dataclasses.replace(site, scope=HOSTILE, op=HOSTILE) for site in fixture.sites()
    )
    trace = dataclasses.replace(fixture.trace(), sites=sites)
    finding = dataclasses.replace(
        fixture.overflow(), site=sites[4], fields={"op": HOSTILE, "dtype": "x"}
    )
    for written in (trace_html(trace), finding_html(finding)):
        assert "<script" not in written
        assert HOSTILE in Balance(written).text


def test_trace_table_starts_with_what_is_worst() -> None:
    text = Balance(trace_html(fixture.trace())).text
    assert text.index("NaN") < text.index("Inf") < text.index("+1.1")


def test_notebook_speaks_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMCHECK_LANG", "zh")
    shown = summary_html(fixture.measured(LAST)[4]) + format_html(get("fp16"))
    assert "最大绝对值" in shown
    assert "最小正规数" in shown
    assert "10 个算子位置、9 步、1 张卡" in trace_html(fixture.trace())


def test_one_of_a_kind_is_not_several() -> None:
    (site,) = fixture.sites()[:1]
    assert "1 site, 0 steps" in trace_html(Trace((site,), {}))


def test_trace_without_a_step_says_so() -> None:
    assert "0 steps" in trace_html(Trace((), {}))


@pytest.mark.parametrize(
    "shown",
    [
        fixture.overflow(),
        fixture.trace(),
        fixture.measured(LAST)[4],
        get("bfloat16"),
    ],
    ids=lambda shown: type(shown).__name__,
)
def test_notebook_asks_the_object_itself(shown: Any) -> None:
    assert shown._repr_html_().startswith("<")
