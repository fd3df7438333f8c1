# SPDX-License-Identifier: Apache-2.0
"""The terminal card: its words, its widths, its colours, and hostile names."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcheck.diagnose.finding import Evidence, Finding
from numcheck.record.site import Site, SourceLine
from numcheck.record.trace import Event
from numcheck.report import card
from numcheck.report.content import Content
from numcheck.report.terminal import cards, terminal_report
from tests.core.report import fixture
from tests.core.report.golden import assert_golden
from tests.core.report.inspection import acting

if TYPE_CHECKING:
    from collections.abc import Iterable

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def cells(line: str) -> int:
    """Returns the width of a line by Unicode's own table, apart from rich's."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in line)
    return len(line) + wide


def content(findings: Iterable[Finding] = ()) -> Content:
    """Returns the fixture run's report."""
    return Content(
        tuple(findings),
        fixture.trace(),
        fixture.events(),
        {"framework": "torch", "level": "watch"},
        fixture.experiments(),
    )


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_card_at_eighty_columns_is_as_it_was_seen(lang: str) -> None:
    assert_golden(f"card.{lang}.txt", card(fixture.overflow(), lang, 80, colour=False))


def test_a_line_that_cannot_be_read_is_named_and_not_quoted() -> None:
    found = fixture.overflow()
    assert found.site.source is not None
    unread = dataclasses.replace(found.site.source, text="")
    site = dataclasses.replace(found.site, source=unread)
    shown = card(dataclasses.replace(found, site=site), "en", 80, colour=False)
    assert f"{unread.file}:{unread.line}" in shown
    assert "= note: first Inf at step" in " ".join(shown.split())
    assert "|" not in shown


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_whole_report_is_as_it_was_seen(lang: str) -> None:
    shown = terminal_report(content([fixture.overflow()]), lang, 80, colour=False)
    assert_golden(f"report.{lang}.txt", shown)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_second_finding_of_the_same_cause_is_told_in_short(lang: str) -> None:
    first = fixture.overflow()
    place = SourceLine("net.py", 71, "forward", "y = g @ h")
    second = dataclasses.replace(
        first, site=dataclasses.replace(first.site, source=place)
    )
    whole = card(first, lang, 80, colour=False)
    shown = cards([first, second], lang, 80, colour=False)
    assert shown.startswith(whole)
    rest = shown[len(whole) :]
    assert "net.py:71" in rest
    assert "y = g @ h" in rest
    assert rest.count("\n") < whole.count("\n") / 2
    assert "numcheck explain" not in rest


@pytest.mark.parametrize(
    "change", [{"step": 9}, {"rank": 5}, {"help": ()}, {"cause": None}]
)
def test_another_step_rank_help_or_cause_is_told_in_full(change: Any) -> None:
    first = fixture.overflow()
    second = dataclasses.replace(first, **change)
    shown = cards([first, second], "en", 80, colour=False)
    assert shown.endswith(card(second, "en", 80, colour=False))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_clean_report_is_as_it_was_seen(lang: str) -> None:
    assert_golden(
        f"clean.{lang}.txt", terminal_report(content(), lang, 80, colour=False)
    )


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [40, 53, 80, 120])
def test_no_line_is_wider_than_asked(lang: str, width: int) -> None:
    shown = terminal_report(content([fixture.overflow()]), lang, width, colour=False)
    assert max(map(cells, shown.splitlines())) <= width


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_columns_end_at_the_same_cell_in_every_row(lang: str) -> None:
    lines = card(fixture.overflow(), lang, 80, colour=False).splitlines()
    rows = [line for line in lines if re.search(r"float16 +[≥0-9]", line)]
    head = lines[lines.index(rows[0]) - 1]
    assert len(rows) == 3
    assert {cells(row) for row in [head, *rows]} == {cells(head)}
    assert {cells(row[: row.index("float16")]) for row in rows} == {
        cells(rows[0][: rows[0].index("float16")])
    }


def test_colour_changes_nothing_but_escape_codes() -> None:
    plain = card(fixture.overflow(), "en", 80, colour=False)
    coloured = card(fixture.overflow(), "en", 80, colour=True)
    assert "\x1b" not in plain
    assert ESCAPE.search(coloured)
    assert ESCAPE.sub("", coloured) == plain


class Terminal:
    """Stands in for a terminal as standard output."""

    def isatty(self) -> bool:
        return True


def test_colour_follows_the_terminal_and_no_color(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b" not in card(fixture.overflow(), "en")
    monkeypatch.setattr("sys.stdout", Terminal())
    assert "\x1b" in card(fixture.overflow(), "en")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in card(fixture.overflow(), "en")


def test_width_follows_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert card(fixture.overflow(), "en") == card(fixture.overflow(), "en", 60)


def test_an_inf_makes_amax_a_bound_and_headroom_negative() -> None:
    row = card(fixture.overflow(), "en", 100, colour=False)
    assert re.search(r"output +y +float16 +≥6\.55e\+04 +<0 bits +12 +0", row)


def test_headroom_is_that_of_the_format() -> None:
    row = card(fixture.overflow(), "en", 100, colour=False)
    # log2(65504 / 30720) = 1.092…
    assert re.search(r"aten\.silu\.default +float16 +3\.07e\+04 +\+1\.1 bits", row)


@pytest.mark.parametrize(
    "hostile",
    [
        "[red]not red[/red]",
        "\x1b[2J\x1b[31mgone",
        "a\nb\rc\x07",
        "\u202egnp.exe",
        "<script>alert(1)</script>",
        "{step}",
        "\ud800",
        "\ue000",
    ],
    ids=ascii,
)
def test_hostile_names_are_shown_escaped(hostile: str) -> None:
    source = SourceLine(hostile, 3, hostile, hostile)
    site = Site(0, hostile, "forward", scope=hostile, source=source)
    finding = dataclasses.replace(
        fixture.overflow(), site=site, harm=(site,), chain=((site, None),)
    )
    shown = card(finding, "en", 120, colour=False)
    assert all(line.isprintable() for line in shown.splitlines())
    shown.encode("utf-8")
    if hostile.isprintable():
        assert hostile in shown


@given(
    width=st.integers(1, 200),
    scope=st.text(max_size=80),
    line=st.text(max_size=200),
    number=st.integers(0, 10**7),
)
def test_any_name_and_width_gives_printable_lines_that_fit(
    width: int, scope: str, line: str, number: int
) -> None:
    site = Site(
        0, "log", "forward", scope=scope, source=SourceLine("a.py", number, "f", line)
    )
    finding = Finding("N302", "error", site, step=1, kind="nan")
    for lang in ("en", "zh"):
        shown = card(finding, lang, width, colour=False).splitlines()
        assert acting("".join(shown)) == []
        # Width of combining characters differs between tables; letters are enough.
        if scope.isascii() and line.isascii():
            assert all(cells(s) <= max(width, 40) for s in shown)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    "kind",
    [
        "nan",
        "+inf",
        "-inf",
        "inf",
        *("underflow", "stagnation", "departure", "drift", "data"),
    ],
)
def test_every_kind_of_fault_has_its_words(lang: str, kind: str) -> None:
    finding = dataclasses.replace(fixture.overflow(), kind=kind)
    assert "1860" in card(finding, lang, 80)


def test_long_chain_keeps_origin_and_harm_and_counts_the_rest() -> None:
    first = fixture.overflow()
    far = [(Site(100 + i, f"step{i}", "forward"), None) for i in range(40)]
    finding = dataclasses.replace(
        first, chain=(*far[:20], *first.chain[2:4], *far[20:], first.chain[-1])
    )
    shown = " ".join(card(finding, "en", 120, colour=False).split())
    assert "born here" in shown
    assert "loss NaN" in shown
    assert "… 18 more …" in shown
    assert "step3" not in shown.replace("step39", "")


def test_clean_report_says_what_was_and_was_not_watched() -> None:
    nothing = terminal_report(Content(()), "en", 80, colour=False)
    assert "no finding" in nothing
    assert "nothing was recorded" in nothing
    partly = Content(
        (),
        fixture.trace(),
        [Event("fault", 3, "sentinel")],
        notes=[Evidence("epsilon_vanished", {"eps": 0.0, "dtype": "a", "smallest": 1})],
        unread=["rank 0: torn record"],
    )
    shown = terminal_report(partly, "en", 80, colour=False)
    assert "failed and stopped watching: sentinel" in shown
    assert "rank 0: torn record" in shown
    assert "epsilon" in shown


def test_notes_are_said_once_with_how_often_and_capped() -> None:
    often = [Event("note", step, "not audited") for step in (4, 3, 5)]
    many = [Event("note", 9, f"reason {i}") for i in range(20)]
    shown = terminal_report(Content((), None, [*often, *many]), "en", 80, colour=False)
    assert "from step 3 on, 3 times: not audited" in shown
    assert "step 9: reason 6" in shown
    assert "reason 7" not in shown
    assert "13 more" in shown


def test_with_several_ranks_the_first_to_fail_is_named_even_if_it_is_rank_0() -> None:
    first = dataclasses.replace(fixture.overflow(), rank=0)
    alone = fixture.trace()
    both = dataclasses.replace(
        alone, summaries={**alone.summaries, (1860, 1): fixture.measured(1860)}
    )
    for trace, named in ((alone, False), (both, True)):
        shown = terminal_report(Content((first,), trace), "en", 80, colour=False)
        assert ("rank 0)" in shown) == named
