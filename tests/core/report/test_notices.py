# SPDX-License-Identifier: Apache-2.0
"""What adapters and readers remark is a key with fields, told in both languages."""

from __future__ import annotations

import ast
import functools
import string
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from numcheck.diagnose.finding import Evidence
from numcheck.record import Event
from numcheck.record.notice import notice, read_notice
from numcheck.report.coverage import Coverage
from numcheck.report.messages import LANGUAGES, catalogue, text, told

if TYPE_CHECKING:
    from collections.abc import Iterator

REMARKING = {"CannotRunError", "Guard", "_guarded", "_say_once", "fault", "guarded"}
PREFIXES = ("notice.", "refusal.", "fault.", "unread.")


@functools.cache
def sources() -> tuple[ast.Module, ...]:
    return tuple(parsed())


def parsed() -> Iterator[ast.Module]:
    for package in ("numcheck", "numcheck_torch", "numcheck_jax"):
        found = find_spec(package)
        assert found is not None
        for folder in found.submodule_search_locations or ():
            for file in sorted(Path(folder).rglob("*.py")):
                yield ast.parse(file.read_text("utf-8"), str(file))


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func).rpartition(".")[2], node


def remarks(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield what is handed over to be told: of a choice, both."""
    for name, call in calls(tree):
        given = call.args[:1] if name in REMARKING else []
        if name == "observe":
            given = [k.value for k in call.keywords if k.arg == "note"]
        if name == "note" and len(call.args) == 1:
            given = call.args
        for value in given:
            if isinstance(value, ast.IfExp):
                yield from (value.body, value.orelse)
            else:
                yield value


def test_every_remark_in_the_sources_goes_by_a_key() -> None:
    found = [(tree, value) for tree in sources() for value in remarks(tree)]
    assert len(found) > 80
    for _, value in found:
        assert not isinstance(value, ast.JoinedStr | ast.BinOp), ast.unparse(value)
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            assert value.value in catalogue("en"), value.value


def test_every_key_in_the_sources_has_a_text_and_gets_its_fields() -> None:
    used: set[str] = set()
    for tree in sources():
        filled: dict[int, set[str]] = {}
        for name, call in calls(tree):
            if name == "notice" and isinstance(call.args[0], ast.Constant):
                filled[id(call.args[0])] = {str(k.arg) for k in call.keywords}
        for node in ast.walk(tree):
            key = node.value if isinstance(node, ast.Constant) else None
            if not (isinstance(key, str) and key.startswith(PREFIXES)):
                continue
            if read_notice(key) is None:
                continue
            used.add(key)
            wanted = {n for _, n, *_ in string.Formatter().parse(told_raw(key)) if n}
            assert id(node) not in filled or filled[id(node)] == wanted, key
            assert not wanted or id(node) in filled or key in chosen(tree), key
    assert {k for k in catalogue("en") if k.startswith(PREFIXES)} <= used


def told_raw(key: str) -> str:
    assert key in catalogue("en"), key
    return catalogue("en")[key]


def chosen(tree: ast.AST) -> set[str]:
    """Return the keys of choices, whose fields are given where they are used."""
    branches = [n for n in ast.walk(tree) if isinstance(n, ast.IfExp)]
    found = [b for n in branches for b in (n.body, n.orelse)]
    return {str(b.value) for b in found if isinstance(b, ast.Constant)}


def told_by(coverage: Coverage, lang: str) -> str:
    return "\n".join(coverage.unseen(lang))


def test_a_remark_about_a_remark_is_told_in_one_language() -> None:
    why = notice("refusal.views_as", source="torch.float16", target="torch.int16")
    note = Event("note", 4, notice("notice.not_audited", why=why))
    part = Event("fault", 2, "fault.capture")
    problem = notice("unread.line", file="events.jsonl", n=7)
    known = Evidence("not_run", {"name": "rows", "why": why})
    coverage = Coverage(
        None,
        [note, part],
        notes=[known],
        unread=[notice("unread.rank", rank=3, problem=problem)],
    )
    english, chinese = (told_by(coverage, lang) for lang in ("en", "zh"))
    assert "the program views torch.float16 values as torch.int16" in english
    assert "rank 3: events.jsonl: line 7 cannot be read" in english
    assert "the capture of a call" in english
    assert "程序把 torch.float16 的值当作 torch.int16 读取" in chinese
    assert "3 号卡：events.jsonl：第 7 行无法读取" in chinese
    assert "一次调用的截取" in chinese
    for prefix in PREFIXES:
        assert prefix not in english + chinese


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(
    "said",
    [
        "the step was not audited: out of memory",
        "notice.of_a_later_version",
        'notice.update_repeated {"step": 3',
        'notice.update_repeated {"other": 3}',
        'notice.update_repeated {"step": [3]}',
        "notice.update_repeated " + '{"step": ' * 5000,
    ],
)
def test_a_text_that_is_no_known_remark_is_shown_as_it_is(said: str, lang: str) -> None:
    assert told(said, lang) == said
    assert said in text("report.watch.note", lang, step=1, note=said)


def test_what_a_remark_holds_survives_its_record() -> None:
    given = {"n": 3, "factor": 0.5, "why": 'a "quoted"\nline', "worst": float("inf")}
    read = read_notice(notice("refusal.raised", **given))
    assert read == ("refusal.raised", given | {"worst": "inf"})
