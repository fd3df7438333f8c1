# SPDX-License-Identifier: Apache-2.0
"""The help of commands in the user's language.

Commands say nothing of themselves: their texts are those of the messages, as ``about``
and ``short`` of a command and one for each option, its own or one that several share.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Final

import click

from numcheck.report.messages import has_text, language, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.report.messages import Language

__all__ = ["SpokenContext", "language_of", "spoken"]

_HEADINGS: Final = {"Options": "options", "Commands": "commands"}
_DEFAULT: Final = re.compile(r"\[default: ([^\]]*)\]")


class SpokenContext(click.Context):
    """A context whose help is laid out by the cells that its characters take."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return what lays out the help in the language of the command line."""
        widths = self.terminal_width, self.max_content_width
        return _Formatter(language_of(self), *widths)


def language_of(context: click.Context) -> Language:
    """Return the language that a command line is answered in."""
    return language(context.find_root().obj)


class _Formatter(click.HelpFormatter):
    def __init__(
        self, lang: Language, width: int | None, max_width: int | None
    ) -> None:
        super().__init__(width=width, max_width=max_width)
        self._lang = lang

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, prefix or text("help.frame.usage", self._lang))

    def write_heading(self, heading: str) -> None:
        key = _HEADINGS.get(heading)
        named = text(f"help.frame.{key}", self._lang) if key else heading
        told = text("report.labelled", self._lang, label=named).rstrip()
        self.write(f"{' ' * self.current_indent}{told}\n")

    def write_text(self, text: str) -> None:
        """Write paragraphs, each filled."""
        lead = " " * self.current_indent
        paragraphs = text.split("\n\n")
        filled = ["\n".join(self._filled(lead, lead, p)) for p in paragraphs]
        self.write("\n\n".join(filled) + "\n")

    def write_dl(
        self,
        rows: Iterable[tuple[str, str]],
        col_max: int = 30,
        col_spacing: int = 2,
    ) -> None:
        """Write options or commands beside what is said of them."""
        from rich.cells import cell_len

        listed = list(rows)
        widest = max((cell_len(term) for term, _ in listed), default=0)
        column = min(widest, col_max) + col_spacing
        for term, said in listed:
            lead = " " * self.current_indent
            rest = lead + " " * column
            if cell_len(term) + col_spacing > column:
                self.write(f"{lead}{term}\n")
                first = rest
            else:
                first = f"{lead}{term}{' ' * (column - cell_len(term))}"
            self.write("\n".join(self._filled(first, rest, said)).rstrip() + "\n")

    def _filled(self, first: str, rest: str, said: str) -> list[str]:
        from rich.text import Text

        from numcheck.report.styled import hanging

        told = _DEFAULT.sub(self._default, " ".join(said.split()))
        lines = hanging(Text(first), rest, Text(told), self.width)
        return [line.plain.rstrip() for line in lines]

    def _default(self, found: re.Match[str]) -> str:
        told = text("help.frame.default", self._lang, value=found[1])
        return f"[{told}]"


def spoken(command: click.Command, name: str, lang: Language) -> click.Command:
    """Return a command that explains itself in a language.

    Args:
        command: as it was declared; it stays as it is.
        name: it is called by.
        lang: to speak.
    """
    told = copy.copy(command)
    told.context_class = SpokenContext
    told.help = text(f"help.{name}.about", lang)
    if has_text(f"help.{name}.short"):
        told.short_help = text(f"help.{name}.short", lang)
    told.params = [_explained(p, name, lang) for p in command.params]
    told.params.append(_help_option(lang))
    told.add_help_option = False
    return told


def _help_option(lang: Language) -> click.Option:
    def shown(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
        if wanted and not context.resilient_parsing:
            click.echo(context.get_help(), color=context.color)
            context.exit()

    return click.Option(
        ["-h", "--help"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=shown,
        help=text("help.numcheck.help", lang),
    )


def _explained(
    parameter: click.Parameter, command: str, lang: Language
) -> click.Parameter:
    if not isinstance(parameter, click.Option):
        return parameter
    told = copy.copy(parameter)
    places = (f"help.{place}.{parameter.name}" for place in (command, "option"))
    told.help = next((text(key, lang) for key in places if has_text(key)), None)
    return told
