# SPDX-License-Identifier: Apache-2.0
"""Every check has its texts, its page and its advice."""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from pathlib import Path

import pytest

import numcheck.datacheck
from numcheck.report.messages import has_text

HOME = Path(numcheck.datacheck.__file__).parent
CODE = {
    node.value
    for path in HOME.rglob("*.py")
    for node in ast.walk(ast.parse(path.read_text("utf-8")))
    if isinstance(node, ast.Constant) and isinstance(node.value, str)
}
IDS = sorted(s for s in CODE if re.fullmatch(r"N\d{3}", s))


@pytest.mark.parametrize("rule", IDS)
def test_every_check_has_a_title_and_a_page_in_both_languages(rule: str) -> None:
    assert has_text(f"rule.{rule}.title")
    for lang in ("en", "zh"):
        page = files("numcheck.report") / "explain" / lang / f"{rule}.md"
        text = page.read_text("utf-8")
        assert text.startswith(f"# {rule}: ")
        assert "    " in text  # a repair in code


def test_every_advice_has_a_text() -> None:
    keys = sorted(s for s in CODE if re.fullmatch(r"data_[a-z0-9_]+", s))
    told = [k for k in keys if k != "data_largest_index"]
    assert len(told) > 10
    assert [k for k in told if not has_text(f"advice.{k}")] == []
