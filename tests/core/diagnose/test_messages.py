# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import re
import string
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import numcheck.diagnose
from numcheck.diagnose.incident import ExperimentName

ID = re.compile(r"N\d{3}")
PACKAGE = Path(numcheck.diagnose.__file__).parent


def texts(lang: str) -> dict[str, Any]:
    file = files("numcheck.report.messages") / lang / "findings.toml"
    return tomllib.loads(file.read_text("utf-8"))


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def strings_in_code(package: Path) -> set[str]:
    """Every string literal of the package that is not a docstring."""
    found: set[str] = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


CODE = strings_in_code(PACKAGE)
ADAPTERS = {
    text
    for name in ("numcheck_torch", "numcheck_jax")
    for text in strings_in_code(PACKAGE.parents[1] / name)
}
OWN_FAULT = "N901"
"""Told by the monitor, not found in a step."""
IDS = sorted({OWN_FAULT, *(s for s in CODE if ID.fullmatch(s))})


def test_both_languages_have_the_same_texts_with_the_same_fields() -> None:
    english, chinese = flat(texts("en")), flat(texts("zh"))
    assert english.keys() == chinese.keys()
    for key, template in english.items():
        assert fields(template) == fields(chinese[key]), key


@pytest.mark.parametrize("rule", IDS)
def test_every_id_has_a_name_and_a_sentence(rule: str) -> None:
    entry = texts("en")["rule"][rule]
    assert fields(entry["name"]) == set()
    assert "title" in entry or "cause" in entry


def test_no_text_is_left_without_a_rule_that_says_it() -> None:
    assert sorted(texts("en")["rule"]) == IDS
    experiments = {f"{name}_" for name in ExperimentName.__args__}  # type: ignore[attr-defined]
    for key in texts("en")["evidence"]:
        is_built = any(key.startswith(prefix) for prefix in experiments)
        assert is_built or key in CODE | ADAPTERS, key
    for key in texts("en")["advice"]:
        assert key in CODE | ADAPTERS, key


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("rule", IDS)
def test_every_id_has_a_page_in_both_languages(rule: str, lang: str) -> None:
    page = files("numcheck.report") / "explain" / lang / f"{rule}.md"
    text = page.read_text("utf-8")
    assert text.startswith(f"# {rule}")
    assert len(text.splitlines()) >= 8
