# SPDX-License-Identifier: Apache-2.0
"""Every rule has its page, and a repair in code for each framework."""

from __future__ import annotations

import ast
import re

import pytest

from numcheck.diagnose.finding import Cause, Finding
from numcheck.errors import ArgumentError
from numcheck.record import Site
from numcheck.report import card
from numcheck.report.explaining import FRAMEWORKS, explanation, fixes, rule_ids
from numcheck.report.messages import LANGUAGES, has_text


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("rule", rule_ids())
def test_every_page_repairs_in_pytorch_jax_and_on_ascend(rule: str, lang: str) -> None:
    page = explanation(rule, lang=lang, colour=False)
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (fix,) = [f for f in fixes() if rule in f["rules"]]
    for framework, name in FRAMEWORKS.items():
        assert f"{name}:\n" in page
        assert fix[framework].strip() + "\n" in shown


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_repairs_are_python(framework: str) -> None:
    for fix in fixes():
        assert ast.parse(fix[framework]).body


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("rule", rule_ids())
def test_a_page_says_whether_its_id_is_a_cause(rule: str, lang: str) -> None:
    said = {"en": "why something broke", "zh": "说明问题的原因"}[lang]
    page = explanation(rule, lang=lang, colour=False)
    assert (said in page) == has_text(f"rule.{rule}.cause")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_card_names_the_page_of_what_broke_and_of_why(lang: str) -> None:
    site = Site(0, "log", "forward", family="log")
    cause = Cause("dynamics", "N751", "likely")
    fields = {"kind": "-inf"}
    finding = Finding("N301", "error", site, 3, "-inf", fields=fields, cause=cause)
    shown = " ".join(card(finding, lang=lang, colour=False, width=200).split())
    assert "numcheck explain N301`" in shown
    assert "numcheck explain N751`" in shown
    assert re.search("(cause|原因).{0,4}N751", shown)


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [("N10", "N101, N102, N103"), ("n9", "N901, N902"), ("N1001", "N101")],
)
def test_a_mistyped_id_is_answered_with_the_nearest(typed: str, nearest: str) -> None:
    with pytest.raises(ArgumentError, match=f"the nearest are {nearest}"):
        explanation(typed)
