# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser, used as a reader would. Run by `nox -s browser`."""

from __future__ import annotations

import dataclasses
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from numcheck.record.site import Site
from numcheck.record.trace import Event
from numcheck.report.colour import colour_of_code
from numcheck.report.content import Content
from numcheck.report.page import page as rendered
from tests.core.report import fixture
from tests.core.report.test_page import HOSTILE, content, long_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed"
)
CHROMIUM = next(
    filter(
        None,
        map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome")),
    ),
    os.environ.get("NUMCHECK_CHROMIUM"),
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed here"),
]
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Returns one headless browser for all tests of this file."""
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


class Reader:
    """A page that is open, with every error and request it made."""

    def __init__(self, browser: Any, path: Path, written: str, **context: Any) -> None:
        path.write_text(written, "utf-8")
        context.setdefault("viewport", {"width": 1200, "height": 900})
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def shown(self, selector: str) -> str:
        """Returns the visible text of an element."""
        return str(self.page.inner_text(selector))

    def pixel(self, across: float, down: float) -> tuple[int, ...]:
        """Returns the colour at a point of the map's area, both from 0 to 1."""
        colour = self.page.evaluate(
            """([across, down]) => {
              const { area, canvas } = map, scale = window.devicePixelRatio;
              const x = (area.x + across * area.width) * scale;
              const y = down * area.height * scale;
              return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data];
            }""",
            [across, down],
        )
        return tuple(colour)

    def press(self, *keys: str) -> None:
        """Presses keys, one after another."""
        for key in keys:
            self.page.keyboard.press(key)


@pytest.fixture
def reader(browser: Any, tmp_path: Path) -> Iterator[Reader]:
    """Returns the fixture run's page in English; afterwards nothing went wrong."""
    opened = Reader(browser, tmp_path / "report.html", rendered(content(), "en"))
    yield opened
    assert opened.errors == []
    assert all(url.startswith("file:") for url in opened.requests)
    opened.context.close()


def test_finding_is_shown_in_the_page_s_language_only(reader: Reader) -> None:
    text = reader.shown("#finding-1")
    assert "overflow in a matrix product" in text
    assert "矩阵乘上溢" not in text
    assert reader.shown("#finding-1 .source mark") == "return self.down(h)"


def test_language_switch_turns_every_text_and_back(reader: Reader) -> None:
    before = reader.shown("body")
    reader.page.click("#language")
    chinese = reader.shown("body")
    assert "矩阵乘上溢" in chinese
    assert "overflow in a matrix product" not in chinese
    assert "what was not watched" not in chinese.lower()
    assert "梯度范数" in chinese
    reader.page.click("#language")
    assert reader.shown("body") == before


def test_chinese_page_says_nothing_in_english_but_names(
    browser: Any, tmp_path: Path
) -> None:
    opened = Reader(browser, tmp_path / "zh.html", rendered(content(), "zh"))
    shown = opened.shown("main")
    older = "step not audited"  # as an older adapter put it
    assert older in shown
    shown = shown.replace(older, "")
    english = {"the", "of", "steps", "finding", "headroom", "not", "step", "in"}
    assert english.isdisjoint(shown.split())
    opened.context.close()


def test_origin_is_picked_when_the_page_opens(reader: Reader) -> None:
    status = reader.shown("#map-status")
    assert status.startswith("Inf · decoder.layers.35.mlp.down/aten.mm.default")
    assert "step 1860, forward, float16 · model/mlp.py:88" in status
    assert "decoder.layers.35.mlp.down" in reader.shown("#histogram-name")


def test_map_has_the_absolute_colours(reader: Reader) -> None:
    rows, columns = len(fixture.sites()), len(fixture.STEPS)
    drawn = reader.page.evaluate("[...cells]")
    for row, column in ((2, 0), (3, 4), (1, 3), (5, columns - 1)):
        code = drawn[row * columns + column]
        expected = colour_of_code(code)
        red, green, blue, _ = reader.pixel((column + 0.5) / columns, (row + 0.5) / rows)
        hexadecimal = f"#{red:02x}{green:02x}{blue:02x}"
        assert expected in (f"rgb({red} {green} {blue})", hexadecimal)


def test_every_code_has_the_same_colour_in_page_and_library(reader: Reader) -> None:
    palette = reader.page.evaluate(
        "Array.from({ length: 256 }, (_, i) => palette.get(i - 128))"
    )
    for code, rgb in zip(range(-128, 127), palette, strict=False):
        expected = colour_of_code(code)
        if expected.startswith("#"):
            assert expected == "#{:02x}{:02x}{:02x}".format(*rgb)
        else:
            channels = [int(part) for part in expected[4:-1].split()]
            assert max(abs(a - b) for a, b in zip(channels, rgb, strict=True)) <= 1


def test_clicking_a_link_of_the_chain_shows_that_tensor(reader: Reader) -> None:
    reader.page.click(".chain .link >> nth=2")
    assert "aten.silu.default · step 1860" in reader.shown("#map-status")
    assert "aten.silu.default" in reader.shown("#histogram-name")
    assert reader.page.locator("#histogram rect.bar").count() == 20


def test_histogram_says_what_narrower_formats_would_lose(reader: Reader) -> None:
    reader.page.click(".chain .link >> nth=2")
    rows = [line.split("\t") for line in reader.shown("#histogram-table").split("\n")]
    lost = {row[0]: row[1:] for row in rows[1:]}
    # 30720 lies in binade 14; each of the 20 binades from -5 to 14 holds a twentieth.
    assert lost["float16"] == ["0", "0", "0"]
    assert lost["bfloat16"] == ["0", "0", "0"]
    # e4m3fn: binades 9 to 14 overflow, binade 8 in part, none is subnormal.
    assert lost["float8_e4m3fn"][0] == "30.00 % – 35.00 %"
    assert lost["float8_e5m2"] == ["0", "0", "0"]


def test_arrow_keys_move_the_picked_cell(reader: Reader) -> None:
    reader.page.focus("#map")
    reader.press("ArrowLeft")
    assert "step 1859, forward" in reader.shown("#map-status")
    reader.press("ArrowUp", "Home")
    assert "aten.silu.default · step 1852" in reader.shown("#map-status")
    reader.press("End", "PageDown")
    assert "_foreach_add_" in reader.shown("#map-status")


def test_zoom_narrows_and_resets_the_window(reader: Reader) -> None:
    size = "map.view.right - map.view.left"
    whole = reader.page.evaluate(size)
    reader.page.focus("#map")
    reader.press("+")
    assert reader.page.evaluate(size) < whole
    reader.press("0")
    assert reader.page.evaluate(size) == whole
    reader.page.click("#zoom-in")
    reader.page.click("#zoom-out")
    assert reader.page.evaluate(size) == whole


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (("#filter-module", "MLP.DOWN"), 4),
        (("#filter-phase", "backward"), 2),
        (("#filter-dtype", "float16"), 6),
        (("#filter-module", "no such module"), 0),
    ],
    ids=["module", "phase", "dtype", "nothing"],
)
def test_filters_keep_the_rows_they_name(
    reader: Reader, fill: tuple[str, str], expected: int
) -> None:
    selector, value = fill
    if "module" in selector:
        reader.page.fill(selector, value)
    else:
        reader.page.select_option(selector, value)
    assert reader.page.evaluate("map.rows.length") == expected


def test_filter_for_risk_keeps_what_had_under_two_bits(reader: Reader) -> None:
    reader.page.check("#filter-risk")
    kept = reader.page.evaluate("map.rows.map((row) => data.rows[row])")
    assert kept == [3, 4, 5, 6, 7, 8]


def test_picking_a_filtered_site_clears_the_filters(reader: Reader) -> None:
    reader.page.select_option("#filter-phase", "backward")
    reader.page.click(".chain .link >> nth=2")
    assert "aten.silu.default" in reader.shown("#map-status")
    assert reader.page.evaluate("map.rows.length") == len(fixture.sites())


def test_theme_key_turns_dark_and_light(reader: Reader) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    assert reader.page.evaluate(background) == "rgb(255, 255, 255)"
    reader.press("d")
    assert reader.page.evaluate(background) == "rgb(13, 17, 23)"
    reader.press("d")
    assert reader.page.evaluate(background) == "rgb(255, 255, 255)"


def test_dark_surroundings_give_a_dark_page(browser: Any, tmp_path: Path) -> None:
    opened = Reader(
        browser, tmp_path / "dark.html", rendered(content(), "en"), color_scheme="dark"
    )
    background = "getComputedStyle(document.body).backgroundColor"
    assert opened.page.evaluate(background) == "rgb(13, 17, 23)"
    opened.context.close()


def test_keys_do_nothing_while_typing(reader: Reader) -> None:
    reader.press("/")
    reader.page.keyboard.type("dlk")
    assert reader.page.input_value("#filter-module") == "dlk"
    assert reader.page.evaluate("document.documentElement.lang") == "en"


def test_findings_are_reached_by_key(reader: Reader) -> None:
    reader.press("j")
    assert reader.page.evaluate("document.activeElement.id") == "finding-1"
    reader.press("m")
    assert reader.page.evaluate("document.activeElement.id") == "map"


def test_curves_mark_what_is_not_finite(reader: Reader) -> None:
    figure = reader.page.locator("#curves figure").first
    assert "not finite: 1" in figure.inner_text()
    assert figure.locator(".broken").count() == 1
    figure.locator("svg").hover(position={"x": 60, "y": 60})
    assert "step 1852: 2" in figure.inner_text()


def test_a_curve_of_one_program_among_several_is_named_in_the_language(
    browser: Any, tmp_path: Path
) -> None:
    events = [Event("gradient_norm (jax)", 0, 1.0), Event("odd (x) (y", 0, 1.0)]
    written = rendered(content(events=events), "zh")
    opened = Reader(browser, tmp_path / "curves.html", written)
    assert "梯度范数 (jax)" in opened.shown("#curves")
    assert "odd (x) (y" in opened.shown("#curves")
    assert opened.errors == []
    opened.context.close()


def test_hostile_names_run_nothing(browser: Any, tmp_path: Path) -> None:
    sites = (
        Site(0, HOSTILE, "forward", dtype="float16", scope=HOSTILE),
        *fixture.sites()[1:],
    )
    trace = dataclasses.replace(fixture.trace(), sites=sites)
    written = rendered(content(trace=trace), "en")
    opened = Reader(browser, tmp_path / "hostile.html", written)
    opened.page.on("dialog", lambda _: opened.errors.append("a dialog opened"))
    opened.page.focus("#map")
    opened.press("Home", "PageUp")
    assert HOSTILE in opened.shown("#map-status")
    assert opened.page.locator("img").count() == 0
    assert opened.errors == []
    opened.context.close()


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("width", [360, 800, 1600])
def test_nothing_sticks_out_sideways(
    browser: Any, tmp_path: Path, lang: str, width: int
) -> None:
    opened = Reader(
        browser,
        tmp_path / "narrow.html",
        rendered(content(), lang),
        viewport={"width": width, "height": 800},
    )
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.errors == []
    opened.context.close()


def test_empty_report_opens_without_an_error(browser: Any, tmp_path: Path) -> None:
    opened = Reader(browser, tmp_path / "empty.html", rendered(Content(()), "en"))
    opened.press("d", "l", "j", "k", "m", "/")
    assert opened.errors == []
    assert "未发现问题" in opened.shown("#findings")
    opened.context.close()


def test_large_map_shows_a_single_bad_cell(browser: Any, tmp_path: Path) -> None:
    trace = long_run(2000, 1200)
    broken = dict(trace.summaries[600, 0])
    broken[1000] = fixture.measured(fixture.STEPS[-1])[6]
    trace = dataclasses.replace(trace, summaries={**trace.summaries, (600, 0): broken})
    written = rendered(Content((), trace, trace.events), "en")
    opened = Reader(browser, tmp_path / "large.html", written)
    assert "A column stands for 2 recorded steps" in opened.shown("#thinned")
    columns = opened.page.evaluate("columns")
    found = {
        opened.pixel((300 + dx) / columns, (1000 + dy) / 2000)[:3]
        for dx in (0.1, 0.3, 0.5, 0.7, 0.9)
        for dy in (-2, -1, 0, 0.5, 1, 2)
    }
    assert (213, 0, 249) in found
    assert opened.errors == []
    opened.context.close()
