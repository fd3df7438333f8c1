# SPDX-License-Identifier: Apache-2.0
"""Every command that is told anywhere exists, with the options it is told with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

import numcheck
from numcheck.cli import cli

ROOT = Path(__file__).parents[2]
HOME = Path(numcheck.__file__).parent
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *HOME.glob("report/explain/**/*.md"),
    *HOME.glob("report/messages/**/*.toml"),
]
FENCE = re.compile(r"^```(?:sh|console|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`(numcheck [^`\n]+)`(?!`)")


def told(page: Path) -> list[str]:
    """Returns the commands of `numcheck` that a page tells."""
    text = page.read_text("utf-8")
    lines = [line for block in FENCE.findall(text) for line in block.splitlines()]
    typed = [
        line.partition("#")[0].strip()
        for line in lines
        if line.startswith("numcheck ") or " -m numcheck " in line
    ]
    inline = [INLINE.sub(r"\1", m[0]) for m in INLINE.finditer(FENCE.sub("", text))]
    return [*(line[line.index("numcheck ") :] for line in typed), *inline]


COMMANDS = sorted({command for page in PAGES for command in told(page)})


def test_there_are_commands_to_look_at() -> None:
    assert len({command.split()[1] for command in COMMANDS}) >= 12


@pytest.mark.parametrize("command", COMMANDS)
def test_a_told_command_can_be_typed(command: str) -> None:
    _, *typed = shlex.split(command)
    # With its parent: a command remembers the help option of its first context.
    parent = click.Context(cli, **cli.context_settings)
    _, rest, _ = cli.make_parser(parent).parse_args(args=typed)
    if not rest:
        return
    name, *words = rest
    found = cli.get_command(parent, name)
    assert found is not None
    with click.Context(found, parent, **found.context_settings) as context:
        # Knows every option, and what is one's value; placeholders may be no values.
        found.make_parser(context).parse_args(args=words)
