# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a command line, in the user's language.

The parser words its errors in English; those that users meet are recognised and told
by a text in both languages. Any other is shown as the parser words it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from numcheck.report.messages import text

if TYPE_CHECKING:
    from numcheck.report.messages import Language

__all__ = ["told_error", "usage_error"]

_PATTERNS: Final = {
    "command_meant": r"No such command '(?P<name>.*)'\. "
    r"Did you mean '?(?P<meant>.*?)'?\?",
    "no_command": r"No such command '(?P<name>.*)'\.",
    "missing_argument": r"Missing argument '(?P<name>.*)'\.",
    "missing_option": r"Missing option '(?P<name>.*)'\.",
    "missing_command": r"Missing command\.",
    "bad_value": r"Invalid value for (?P<name>'.*?'|\S+): (?P<message>.*)",
    "not_one_of": r"(?P<value>'.*') is not one of (?P<choices>.*)\.",
    "no_number": r"(?P<value>'.*') is not a valid integer(?: range)?\.",
    "out_of_range": r"(?P<value>\S+) is not in the range (?P<range>.*)\.",
    "is_folder": r"File (?P<name>'.*') is a directory\.",
    "is_file": r"Directory (?P<name>'.*') is a file\.",
    "no_file": r"no file (?P<name>'.*')",
    "extra": r"Got unexpected extra arguments? \((?P<names>.*)\)",
    "no_value": r"Option '(?P<name>.*)' requires an argument\.",
    "needless_value": r"Option '(?P<name>.*)' does not take a value\.",
}
_KNOWN: Final = {key: re.compile(p, re.DOTALL) for key, p in _PATTERNS.items()}


def usage_error(error: click.ClickException, lang: Language) -> str:
    """Return how the command is used, where its help is, and what is wrong.

    Args:
        error: raised by the parser or by a command.
        lang: to speak.
    """
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None and error.message == context.get_help():
        return error.message  # nothing was asked for
    if isinstance(error, click.NoSuchOption):
        said = _no_option(error, lang)
    else:
        said = told_error(error.format_message(), lang)
    lines = [text("help.frame.error", lang, message=said)]
    if context is not None:
        hint = text("help.frame.try", lang, command=context.command_path)
        lines = [context.get_usage(), hint, "", *lines]
    return "\n".join(lines)


def told_error(said: str, lang: Language) -> str:
    """Return an error of the parser in a language.

    Example:
        >>> told_error("Missing argument 'RUN'.", "zh")
        '缺少参数 RUN。'
        >>> told_error("Could not open it.", "zh")
        'Could not open it.'
    """
    for key, pattern in _KNOWN.items():
        found = pattern.fullmatch(said)
        if found is not None:
            fields = found.groupdict()
            if "message" in fields:
                fields["message"] = told_error(fields["message"], lang)
            return text(f"usage.{key}", lang, **fields)
    return said


def _no_option(error: click.NoSuchOption, lang: Language) -> str:
    # How the parser words its guesses, and whether it sorts them, changes from
    # version to version; the list holds the nearest first.
    if error.possibilities:
        near = error.possibilities[0]
        return text("usage.option_meant", lang, name=error.option_name, meant=near)
    return text("usage.no_option", lang, name=error.option_name)
