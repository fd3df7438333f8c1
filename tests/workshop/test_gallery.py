# SPDX-License-Identifier: Apache-2.0
"""The gallery of faults tells every case in both languages."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "tests" / "cases").glob("*/[0-9]*.py"))


@pytest.fixture(scope="module")
def gallery() -> ModuleType:
    """Returns the hook that fills the page."""
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs/gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def filled(gallery: ModuleType, lang: str) -> list[str]:
    page = SimpleNamespace(file=SimpleNamespace(src_uri=f"{lang}/gallery.md"))
    whole = gallery.on_page_markdown("<!-- gallery -->", page=page)
    return re.split(r"(?m)^## ", str(whole))[1:]


def test_both_languages_show_the_same_cases(gallery: ModuleType) -> None:
    english, chinese = filled(gallery, "en"), filled(gallery, "zh")
    assert len(english) == len(chinese) > 30
    for one, other in zip(english, chinese, strict=True):
        # The programs are the same, their stories are not.
        assert one.partition("```python")[2] == other.partition("```python")[2]
        assert not re.search("[\u4e00-\u9fff]", one)
        lines = other.partition("???")[0].strip().splitlines()
        assert len(lines) == 6
        for line in lines:
            assert not line or re.search("[\u4e00-\u9fff]", line), line


def test_no_story_is_left_without_its_program() -> None:
    told = tomllib.loads((ROOT / "docs" / "gallery.zh.toml").read_text("utf-8"))
    assert set(told) <= {path.stem for path in CASES}
