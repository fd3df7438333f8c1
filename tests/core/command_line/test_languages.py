# SPDX-License-Identifier: Apache-2.0
"""Help and errors of the command line come in the language that was asked for."""

from __future__ import annotations

import importlib
import re
import string

import click
import pytest

from numcheck.cli import COMMANDS, main
from numcheck.command_help import spoken
from numcheck.report.messages import LANGUAGES, catalogue
from numcheck.usage_errors import _PATTERNS

CHINESE = re.compile("[\u4e00-\u9fff]")


def declared(name: str) -> click.Command:
    """Returns a command as its module declares it, before it speaks."""
    module, _, called = COMMANDS[name].partition(":")
    command = getattr(importlib.import_module(module), called)
    assert isinstance(command, click.Command)
    return command


def ended(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return stopped.value.code


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained_in_both_languages(name: str) -> None:
    command = declared(name)
    for lang in LANGUAGES:
        told = spoken(command, name, lang)
        said = [p.help for p in told.params if isinstance(p, click.Option)]
        for text in (told.help, told.short_help, *said):
            assert text
            assert bool(CHINESE.search(text)) == (lang == "zh" and text[0] != "-")


def test_no_help_is_left_without_an_option() -> None:
    known = {n: {p.name for p in declared(n).params} for n in COMMANDS}
    shared = set().union(*known.values())
    for key in catalogue("en"):
        section, name, *rest = key.split(".")
        if section == "help" and name in COMMANDS:
            assert rest[0] in known[name] | {"about", "short"}, key
        if section == "help" and name == "option":
            assert rest[0] in shared, key


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_chinese_help_fits_its_lines_and_holds_no_english(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.cells import cell_len

    monkeypatch.setenv("NUMCHECK_LANG", "zh")
    monkeypatch.setenv("COLUMNS", "72")
    assert ended(*filter(None, [command]), "--help") in (0, None)
    shown = capsys.readouterr().out
    assert max(map(cell_len, shown.splitlines())) <= 72
    assert "用法：numcheck" in shown
    assert "Usage" not in shown
    assert "选项：" in shown
    assert "显示本说明并退出。" in shown


def test_the_option_for_the_language_holds_for_help_and_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NUMCHECK_LANG", "en")
    assert ended("report", "--lang", "zh", "--help") in (0, None)
    assert "显示报告" in capsys.readouterr().out
    assert ended("report", "--lang=zh") == 2
    assert "缺少参数 RUN" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--lang zh explain N101", "上溢"),
        ("--lang zh explain N101 --lang en", "overflow"),
        ("--lang=zh --help", "用法"),
        ("--lang zh range fp16 70000", "上溢"),
    ],
)
def test_the_language_can_be_said_before_the_command(
    arguments: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NUMCHECK_LANG", "en")
    assert ended(*arguments.split()) in (0, None)
    assert said in capsys.readouterr().out


MISTAKES = {
    "no_command": ["zzzz"],
    "command_meant": ["repot"],
    "no_option": ["report", "--qqqq", "x"],
    "option_meant": ["run", "--levle", "watch", "x.py"],  # close to --every and --help
    "missing_argument": ["report"],
    "not_one_of": ["run", "--level", "high", "x.py"],
    "no_number": ["report", "--width", "wide", "x"],
    "out_of_range": ["report", "--width", "3", "x"],
    "is_folder": ["fit", "."],
    "no_file": ["run", "missing.py"],
    "extra": ["data", "a", "b"],
    "no_value": ["report", "-o"],
    "needless_value": ["data", "--json=3", "x"],
}


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("key", MISTAKES)
def test_a_mistake_is_told_in_the_language(
    key: str,
    lang: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NUMCHECK_LANG", lang)
    assert ended(*MISTAKES[key]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    wording = catalogue(lang)[f"usage.{key}"]
    for literal, *_ in string.Formatter().parse(wording):
        assert literal in said
    assert said.startswith({"en": "Error: ", "zh": "错误："}[lang])


def test_every_wording_of_a_mistake_is_recognised_somewhere() -> None:
    told = {key.removeprefix("usage.") for key in catalogue("en") if "usage." in key}
    assert told == {*_PATTERNS, "no_option", "option_meant"}
    assert told - set(MISTAKES) == {
        "bad_value",  # holds another
        "is_file",  # of `import --run`, which takes a folder
        "missing_command",
        "missing_option",
    }


def test_without_a_command_the_help_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMCHECK_LANG", "en")
    ended()
    shown = "".join(capsys.readouterr())
    assert "Show the report of a run folder." in shown
    assert "Error" not in shown
