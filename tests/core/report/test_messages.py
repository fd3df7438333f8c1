# SPDX-License-Identifier: Apache-2.0
"""Both languages say the same things with the same fields, and no text can crash."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import pytest

import numcheck.report
from numcheck.errors import ArgumentError
from numcheck.report.messages import (
    LANGUAGES,
    MessageError,
    catalogue,
    language,
    text,
)

HOME = Path(numcheck.report.__file__).parent


def fields(template: str) -> list[tuple[str, str]]:
    """Returns the named fields of a text with their format specifications, sorted."""
    parsed = string.Formatter().parse(template)
    return sorted((name, spec or "") for _, name, spec, _ in parsed if name is not None)


def test_both_languages_have_the_same_keys() -> None:
    assert catalogue("en").keys() == catalogue("zh").keys()


@pytest.mark.parametrize("key", sorted(catalogue("en")))
def test_both_languages_name_the_same_fields(key: str) -> None:
    assert {n for n, _ in fields(catalogue("en")[key])} == {
        n for n, _ in fields(catalogue("zh")[key])
    }


@pytest.mark.parametrize("key", sorted(catalogue("zh")))
def test_chinese_texts_are_chinese_where_the_english_ones_are_sentences(
    key: str,
) -> None:
    english, chinese = catalogue("en")[key], catalogue("zh")[key]
    words = re.sub(r"\{[^}]*\}", "", english)
    said = re.sub(r"\{[^}]*\}", "", chinese)
    if " " in words.strip() and words.islower() and "=" not in words:
        assert any(c > "\u2fff" for c in said) or not re.search("[a-z]", said)


def test_every_text_that_the_code_names_exists() -> None:
    known = catalogue("en")
    named = set()
    for path in HOME.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                value = node.value
                is_file = value.endswith((".html", ".js")) or "schema" in value
                if re.fullmatch(r"(report|compare|notebook)(\.\w+)+", value):
                    named |= set() if is_file else {value}
    assert named
    # A name ending in an underscore is completed where it is used.
    begins = {name for name in named if name.endswith("_")}
    assert {b for b in begins if not any(k.startswith(b) for k in known)} == set()
    assert {key for key in named - begins if key not in known} == set()


def test_every_text_that_a_page_names_exists() -> None:
    for file in (HOME / "web").glob("*.html"):
        template = file.read_text("utf-8")
        for call, prefix in (("t", "page"), ("c", "compare.page")):
            named = re.findall(rf'\b{call}\("([\w.]+)"', template)
            assert {f"{prefix}.{key}" for key in named} <= catalogue("en").keys()


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("en", "en"),
        ("zh", "zh"),
        ("zh_CN.UTF-8", "zh"),
        ("zh-TW", "zh"),
        ("EN_US", "en"),
    ],
)
def test_language_tags_are_understood(tag: str, expected: str) -> None:
    assert language(tag) == expected


@pytest.mark.parametrize("tag", ["fr", "", "chinese", 3])
def test_another_language_is_an_error_that_names_both(tag: str) -> None:
    with pytest.raises(ArgumentError, match="en, zh"):
        language(tag)


def test_the_environment_decides_before_the_locale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")
    monkeypatch.setenv("NUMCHECK_LANG", "zh")
    assert language() == "zh"
    monkeypatch.delenv("NUMCHECK_LANG")
    assert language() == "en"


@pytest.mark.parametrize(
    ("locale", "expected"), [("zh_CN.UTF-8", "zh"), ("de_DE.UTF-8", "en"), ("C", "en")]
)
def test_the_locale_decides_else(
    monkeypatch: pytest.MonkeyPatch, locale: str, expected: str
) -> None:
    monkeypatch.delenv("NUMCHECK_LANG")
    for variable in ("LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LANG", locale)
    assert language() == expected


def test_a_missing_text_is_an_error_in_tests() -> None:
    with pytest.raises(MessageError, match=r"no text 'rule\.N999\.title' in en"):
        text("rule.N999.title", "en")


def test_a_missing_field_is_an_error_in_tests() -> None:
    with pytest.raises(MessageError, match="rank"):
        text("report.rank", "en")


def test_a_missing_text_shows_its_key_and_fields_to_a_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NUMCHECK_STRICT_MESSAGES")
    assert text("rule.N999.title", "en", amax=70000.0) == "rule.N999.title (amax=7e+04)"
    assert text("report.rank", "en") == "report.rank"


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(
    "hostile", ["{0}", "{rank.__class__}", "%s", "\x1b[31m", "[red]", "\u202e"]
)
def test_a_field_is_shown_and_never_read_as_a_text(lang: str, hostile: str) -> None:
    shown = text("report.rank", lang, rank=hostile)
    assert shown.isprintable()
    assert shown.replace("\\x1b", "\x1b").replace("\\u202e", "\u202e") == text(
        "report.rank", lang, rank="@"
    ).replace("@", hostile)


def test_floats_have_four_digits_and_kinds_their_usual_spelling() -> None:
    filled = text("rule.N001.title", "en", op="input:x", kind="+inf")
    assert filled == "non-finite input: input:x held Inf before the step began"
    assert text("report.rank", "en", rank=0.123456) == "rank 0.1235"


@pytest.mark.parametrize(
    ("n", "expected"),
    [(0, "0 columns"), (1, "1 column"), ("1", "1 column"), (2, "2 columns")],
    ids=["none", "one", "one as text", "several"],
)
def test_a_word_takes_the_form_of_its_number(
    n: object, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"columns": "{n} {n:column|columns}"}
    monkeypatch.setattr("numcheck.report.messages.catalogue", lambda lang: texts)
    assert text("columns", "en", n=n) == expected


@pytest.mark.parametrize("key", sorted(catalogue("en")))
def test_a_text_offers_two_forms_of_a_word_or_one(key: str) -> None:
    for lang in LANGUAGES:
        for _, specification in fields(catalogue(lang)[key]):
            assert specification.count("|") <= 1
