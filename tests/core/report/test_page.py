# SPDX-License-Identifier: Apache-2.0
"""The page: self-contained, escaped, bounded in size, and as it was seen."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import html.parser
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.measure.summary import Summary
from numcheck.record.site import Site, SourceLine
from numcheck.record.trace import Event, Trace
from numcheck.report import write_report
from numcheck.report.content import Content
from numcheck.report.page import page
from tests.core.report import fixture
from tests.core.report.golden import assert_golden

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = '</script><script>alert("1")</script><!--<img src=x onerror=alert(1)>&amp;'


def content(**changes: Any) -> Content:
    """Returns the fixture run's report with some parts replaced."""
    full = Content(
        (fixture.overflow(),),
        fixture.trace(),
        fixture.events(),
        {"framework": "torch", "level": "watch"},
        fixture.experiments(),
        departures=fixture.departures(),
    )
    return dataclasses.replace(full, **changes)


class Reader(html.parser.HTMLParser):
    """Collects what a browser would see of a page: tags, texts, embedded data."""

    def __init__(self, written: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._inside = ""
        self.feed(written)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside != "style":
            self.text += data

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0], parse_constant=pytest.fail)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_page_is_as_it_was_seen(lang: str) -> None:
    written = page(content(), lang)
    # Style and script are our own files; what is kept is the page around them.
    written = re.sub(r"(?s)<style>.*?</style>", "<style></style>", written)
    written = re.sub(r"(?s)<script>.*?</script>", "<script></script>", written)
    assert_golden(f"report.{lang}.html", re.sub(r"sha256-[^']+", "sha256-", written))


def test_page_needs_nothing_from_outside() -> None:
    written = page(content(), "en")
    for tag, attributes in Reader(written).tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "img")
        assert not {"src", "srcset", "data", "action"} & attributes.keys()
        assert attributes.get("href", "#").startswith("#")
    assert "url(" not in written
    assert "@import" not in written
    assert not re.search(r"\bfetch\(|XMLHttpRequest|import\(", written)


def test_policy_allows_the_page_s_script_and_no_other() -> None:
    seen = Reader(page(content(), "en"))
    digest = base64.b64encode(hashlib.sha256(seen.scripts[1].encode()).digest())
    (policy,) = [a["content"] for t, a in seen.tags if a.get("http-equiv")]
    assert f"script-src 'sha256-{digest.decode()}'" in str(policy)
    assert "default-src 'none'" in str(policy)


def test_names_of_the_user_s_program_are_text_and_nothing_else() -> None:
    source = SourceLine(HOSTILE, 3, HOSTILE, HOSTILE)
    site = dataclasses.replace(
        fixture.sites()[4], op=HOSTILE, scope=HOSTILE, dtype=HOSTILE, source=source
    )
    sites = tuple(site if s.index == 4 else s for s in fixture.sites())
    trace = dataclasses.replace(fixture.trace(), sites=sites)
    finding = dataclasses.replace(
        fixture.overflow(),
        site=site,
        chain=((site, None),),
        harm=(site,),
        fields={"op": HOSTILE, "dtype": HOSTILE},
    )
    events = [Event(HOSTILE, 1860, 3.0), Event("fault", 1, HOSTILE)]
    shown = page(
        content(
            findings=(finding,),
            trace=trace,
            events=events,
            settings={"device": HOSTILE},
        ),
        "en",
    )
    plain = Reader(page(content(), "en"))
    seen = Reader(shown)
    assert {tag for tag, _ in seen.tags} <= {tag for tag, _ in plain.tags}
    assert len(seen.scripts) == len(plain.scripts) == 2
    assert not any(name.startswith("on") for _, a in seen.tags for name in a)
    assert HOSTILE in seen.text
    assert seen.data["sites"][4]["op"] == HOSTILE
    assert "<!--" not in shown


def test_data_block_can_end_neither_early_nor_in_a_comment() -> None:
    block = Reader(page(content(events=[Event(HOSTILE, 1, 2.0)]), "en")).scripts[0]
    assert "<" not in block
    assert ">" not in block
    assert block.isascii()


def test_both_languages_are_in_every_page() -> None:
    for lang in ("en", "zh"):
        written = page(content(), lang)
        assert f'<html lang="{lang}">' in written
        assert "overflow in a matrix product" in written
        assert "矩阵乘上溢" in written


@pytest.mark.parametrize("part", ["map", "histogram", "curves", "departures"])
def test_a_part_without_data_is_left_out(part: str) -> None:
    empty = page(Content(()), "en")
    assert f'id="{part}"' not in empty
    assert f'id="{part}"' in page(content(), "en")


def test_clean_page_says_what_was_not_watched() -> None:
    text = Reader(page(Content(()), "en")).text
    assert "No finding in what was watched" in text
    assert "nothing was recorded" in text


def test_chain_links_point_at_the_row_of_the_same_site() -> None:
    written = page(content(), "en")
    linked = re.findall(r'data-site="(-?\d+)" title="([^"]*)"', written)
    names = [site.name for site in fixture.sites()]
    assert len(linked) == 6
    for index, title in linked:
        assert html.unescape(title).startswith(names[int(index)])


def test_sites_of_another_replay_are_found_by_what_they_are() -> None:
    shifted = tuple(
        dataclasses.replace(site, index=i + 1, parents=())
        for i, site in enumerate(fixture.sites())
    )
    trace = Trace(
        (Site(0, "input:extra", "data"), *shifted),
        {(1860, 0): {i + 1: s for i, s in fixture.measured(1860).items()}},
    )
    data = Reader(page(content(trace=trace), "en")).data
    assert data["origins"] == [{"site": 5, "step": 1860, "id": "N102"}]
    lost = dataclasses.replace(trace, sites=trace.sites[:3], summaries={})
    data = Reader(page(content(trace=lost, departures=None), "en")).data
    assert data["origins"][0]["site"] == -1


def test_among_sites_alike_the_one_that_held_the_same_is_linked() -> None:
    first = fixture.sites()[4]
    twins = (
        Site(0, "input:extra", "data"),
        *(dataclasses.replace(first, index=i, parents=()) for i in (1, 2, 3)),
    )
    last = fixture.measured(1860)
    trace = Trace(twins, {(1860, 3): {1: last[3], 2: last[4], 3: last[3]}})
    data = Reader(page(content(trace=trace, departures=None), "en")).data
    assert data["origins"][0]["site"] == 2


def long_run(rows: int, steps: int) -> Trace:
    """Returns a run of many sites and steps, with histograms at the last one."""
    line = SourceLine("model/blocks.py", 120, "Block.forward", "x = x + self.mlp(x)")
    sites = tuple(
        Site(i, "aten.mm.default", "forward", dtype="float16", source=line,
             scope=f"decoder.layers.{i // 8}.mlp.projection{i % 8}")
        for i in range(rows)
    )  # fmt: skip
    plain = Summary(n=4096, nan=0, pos_inf=0, neg_inf=0, amax=3.0, amin=1e-3)
    full = dataclasses.replace(plain, exponents=dict.fromkeys(range(-20, 20), 100))
    measured = {(s, 0): dict.fromkeys(range(rows), plain) for s in range(steps)}
    measured[steps - 1, 0] = dict.fromkeys(range(rows), full)
    events = [
        Event(name, step, 1.0 / (step + 1))
        for name in ("loss", "gradient_norm", "learning_rate", "loss_scale")
        for step in range(steps)
    ]
    return Trace(sites, measured, tuple(events))


def test_300_sites_of_2000_steps_stay_under_3_megabytes() -> None:
    trace = long_run(300, 2000)
    written = page(content(trace=trace, events=trace.events, departures=None), "en")
    assert 600_000 < len(written.encode()) < 3_000_000
    assert Reader(written).data["steps_in_column"] == 1


def test_a_longer_run_is_thinned_out_and_says_so() -> None:
    trace = long_run(50, 60_000)
    written = page(content(trace=trace, events=trace.events, departures=None), "en")
    assert len(written.encode()) < 3_000_000
    assert "A column stands for 3 recorded steps" in Reader(written).text


@pytest.mark.parametrize("ending", [".html", ".json", ".sarif", ".HTML"])
def test_path_s_ending_chooses_the_form(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out{ending}"
    shown = write_report([fixture.overflow()], fixture.trace(), path=path, lang="en")
    assert shown.startswith("error[N102]")
    start = "<!doctype html>" if "h" in ending.lower() else "{"
    assert path.read_text("utf-8").startswith(start)


def test_another_ending_is_an_error_that_names_all_and_writes_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "out.pdf"
    with pytest.raises(ArgumentError, match=r"\.html, \.json, \.sarif; got .*out\.pdf"):
        write_report([], None, path=path)
    assert not path.exists()


def test_a_path_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"cannot be written to .*missing"):
        write_report([], None, path=tmp_path / "missing" / "out.json")
    with pytest.raises(ArgumentTypeError, match=r"path must be .* got int"):
        write_report([], None, path=3)  # type: ignore[arg-type]


def test_an_experiment_is_told_by_what_it_showed() -> None:
    written = page(content(), "en")
    assert "the same step in float32 is healthy; its largest kept value is" in written
    assert "the failure is not tied to a few of the 8 samples" in written
    assert "the step runs on the CPU already" in written
    assert "refusal." not in written.partition("<main")[2].partition("</main")[0]
