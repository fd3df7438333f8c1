# SPDX-License-Identifier: Apache-2.0
"""The page of two compared runs in a real browser. Run by `nox -s browser`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from numcheck.report.comparison_page import comparison_page
from tests.core.comparison.test_comparison_page import parted
from tests.core.report.test_browser import CHROMIUM, Reader, browser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["browser"]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed here"),
]


@pytest.fixture
def reader(browser: Any, tmp_path: Path) -> Iterator[Reader]:
    """Returns the page of two runs that part; afterwards nothing went wrong."""
    written = comparison_page(parted(), "a", "b", "en")
    opened = Reader(browser, tmp_path / "compare.html", written)
    yield opened
    assert opened.errors == []
    assert all(url.startswith("file:") for url in opened.requests)
    opened.context.close()


def test_every_point_has_a_dot_and_the_first_difference_a_large_one(
    reader: Reader,
) -> None:
    dots = reader.page.locator("#points circle")
    assert dots.count() == 5
    assert reader.page.locator("#points circle.lost").count() == 1
    assert reader.page.locator("#points circle.parted").count() == 1


def test_clicking_a_dot_chooses_its_row(reader: Reader) -> None:
    reader.page.click("#points circle.lost")
    assert "blocks.2.up" in reader.shown("tr.chosen")


def test_filters_keep_the_rows_they_name(reader: Reader) -> None:
    reader.page.check("#filter-parted")
    assert reader.shown("#shown") == "2 of 5"
    reader.page.uncheck("#filter-parted")
    reader.page.fill("#filter-place", "BLOCKS.0")
    assert reader.shown("#shown") == "2 of 5"


def test_language_and_theme_switch(reader: Reader) -> None:
    before = reader.shown("body")
    reader.press("l")
    chinese = reader.shown("body")
    assert "两次运行在 模块 blocks.2.up 处分开" in chinese
    assert "the runs part" not in chinese
    reader.press("d")
    background = reader.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(13, 17, 23)"
    reader.press("l")
    assert reader.shown("body") == before


@pytest.mark.parametrize("width", [360, 1600])
def test_nothing_sticks_out_sideways(browser: Any, tmp_path: Path, width: int) -> None:
    opened = Reader(
        browser,
        tmp_path / "narrow.html",
        comparison_page(parted(), "runs/a", "runs/b", "zh"),
        viewport={"width": width, "height": 800},
    )
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    opened.context.close()
