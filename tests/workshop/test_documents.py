# SPDX-License-Identifier: Apache-2.0
"""What readers meet first exists in both languages and tells the true commands."""

from __future__ import annotations

import fnmatch
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def pages(language: str) -> set[str]:
    """Returns the documentation pages of a language, relative to its folder."""
    folder = ROOT / "docs" / language
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}


def test_documentation_has_the_same_pages_in_both_languages() -> None:
    assert pages("en") == pages("zh")


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
@pytest.mark.parametrize("command", ["nox -s demo", "nox"])
def test_readme_gives_the_command_on_a_line_of_its_own(
    readme: str, command: str
) -> None:
    lines = (ROOT / readme).read_text("utf-8").splitlines()
    assert f"pip install nox && {command}" in {line.strip() for line in lines}


def test_ci_runs_what_the_readme_tells_and_nothing_else() -> None:
    lines = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    commands = [line for line in lines if line and not line.startswith("#")]
    assert commands[-2:] == ["python -m pip install --quiet nox", 'nox "$@"']


def test_changelog_collects_what_is_not_released_yet() -> None:
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_spelling_check_leaves_out_what_sessions_write() -> None:
    ignored = (ROOT / ".gitignore").read_text("utf-8")
    _, _, written = ignored.partition("# what the sessions write\n")
    names = [
        line.strip("/").replace("*", "x") for line in written.split("\n\n")[0].split()
    ]
    assert "report.html" in names
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    skipped = settings["tool"]["codespell"]["skip"].split(",")
    for name in names:
        assert any(fnmatch.fnmatch(f"./{name}", pattern) for pattern in skipped), name
