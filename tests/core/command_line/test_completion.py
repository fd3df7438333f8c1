# SPDX-License-Identifier: Apache-2.0
"""Shells complete commands and options of `numcheck`."""

from __future__ import annotations

import pytest
from click.shell_completion import get_completion_class
from click.testing import CliRunner

from numcheck.cli import COMMANDS, cli

SHELLS = ("bash", "zsh", "fish")


def completed(shell: str, *words: str) -> set[str]:
    """Returns what a shell offers after the words, the last of them unfinished."""
    environment = {
        "_NUMCHECK_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": " ".join(["numcheck", *words]),
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words)),
    }
    told = CliRunner().invoke(cli, [], prog_name="numcheck", env=environment)
    lines = told.output.splitlines()
    if shell == "zsh":  # kind, value and help, each on a line of its own
        return set(lines[1::3])
    return {line.split(",", 1)[1].split("\t")[0] for line in lines}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_offered(shell: str) -> None:
    assert completed(shell, "") == set(COMMANDS)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_start_narrows_what_is_offered(shell: str) -> None:
    assert completed(shell, "re") == {"report"}


@pytest.mark.parametrize("shell", SHELLS)
def test_options_and_their_choices_are_offered(shell: str) -> None:
    assert {"--output", "--lang", "--width"} <= completed(shell, "report", "--")
    assert completed(shell, "report", "--lang", "") == {"en", "zh"}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_that_a_user_loads_names_the_variable_we_answer_to(
    shell: str,
) -> None:
    script = get_completion_class(shell)
    assert script is not None
    told = CliRunner().invoke(
        cli, [], prog_name="numcheck", env={"_NUMCHECK_COMPLETE": f"{shell}_source"}
    )
    assert f"_NUMCHECK_COMPLETE={shell}_complete" in told.output
