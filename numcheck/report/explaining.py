# SPDX-License-Identifier: Apache-2.0
"""The pages of `numcheck explain`: one Markdown file for each rule and language."""

from __future__ import annotations

import difflib
from importlib.resources import files
from typing import TYPE_CHECKING

from numcheck.errors import ArgumentError
from numcheck.report.messages import catalogue, language, text
from numcheck.report.styled import columns, drawn
from numcheck.report.terminal import line_width, wants_colour

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["explanation", "rule_ids", "rule_list"]


def rule_ids() -> tuple[str, ...]:
    """Return the ids of all rules, ascending.

    Example:
        >>> rule_ids()[0]
        'N001'
    """
    named = (key.split(".") for key in catalogue("en") if key.startswith("rule."))
    return tuple(sorted({parts[1] for parts in named}))


def explanation(
    rule: str,
    *,
    lang: str | None = None,
    colour: bool | None = None,
    width: int | None = None,
) -> str:
    """Return a rule's page, laid out for the terminal.

    Args:
        rule: an id such as ``N102``, in either case.
        lang: ``en`` or ``zh``; by default NUMCHECK_LANG, else the locale.
        colour: as for `numcheck.report.card`.
        width: as for `numcheck.report.card`.

    Raises:
        ArgumentError: no rule has that id; the text names the nearest.
    """
    wanted = rule.strip().upper()
    known = rule_ids()
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        msg = f"no rule has the id {rule!r}{hint} (`numcheck explain` lists all)"
        raise ArgumentError(msg)
    lang = language(lang)
    page = _page_file(wanted, lang)
    written = page.read_text("utf-8") if page.is_file() else _short(wanted, lang)
    return _laid_out(written, width=line_width(width), colour=wants_colour(colour))


def _page_file(rule: str, lang: str) -> Traversable:
    return files("numcheck.report") / "explain" / lang / f"{rule}.md"


def _short(rule: str, lang: str) -> str:
    """Return what is known of a rule that has no page of its own."""
    return f"# {rule}: {text(f'rule.{rule}.name', lang)}\n"


def _laid_out(markdown: str, *, width: int, colour: bool) -> str:
    if not colour:
        return markdown.rstrip() + "\n"
    import io

    from rich.console import Console
    from rich.markdown import Markdown

    sink = io.StringIO()
    console = Console(file=sink, width=width, force_terminal=True, legacy_windows=False)
    console.print(Markdown(markdown))
    return sink.getvalue()


def rule_list(
    *, lang: str | None = None, colour: bool | None = None, width: int | None = None
) -> str:
    """Return all rules, one a line: id and short description.

    Args:
        lang: ``en`` or ``zh``; by default NUMCHECK_LANG, else the locale.
        colour: as for `numcheck.report.card`.
        width: as for `numcheck.report.card`.
    """
    lang = language(lang)
    rows = [((i, "bold"), (text(f"rule.{i}.name", lang), "")) for i in rule_ids()]
    width = line_width(width)
    return drawn(columns(rows, width), width, colour=wants_colour(colour))
