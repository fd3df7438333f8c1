# SPDX-License-Identifier: Apache-2.0
"""The pages of `numcheck explain`: one Markdown file for each rule and language."""

from __future__ import annotations

import difflib
import functools
import tomllib
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from numcheck.errors import ArgumentError
from numcheck.report.messages import catalogue, has_text, language, text
from numcheck.report.styled import columns, drawn
from numcheck.report.terminal import line_width, wants_colour

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

__all__ = ["FRAMEWORKS", "explanation", "fixes", "rule_ids", "rule_list"]

FRAMEWORKS: Final = {"torch": "PyTorch", "jax": "JAX, Flax", "ascend": "Ascend NPU"}


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
        near = [r for r in known if wanted and r.startswith(wanted)][:5]
        near = near or difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        msg = f"no rule has the id {rule!r}{hint} (`numcheck explain` lists all)"
        raise ArgumentError(msg)
    lang = language(lang)
    page = _page_file(wanted, lang)
    written = page.read_text("utf-8") if page.is_file() else _short(wanted, lang)
    written = f"{_introduced(written, wanted, lang)}\n{_in_code(wanted, lang)}"
    return _laid_out(written, width=line_width(width), colour=wants_colour(colour))


def _page_file(rule: str, lang: str) -> Traversable:
    return files("numcheck.report") / "explain" / lang / f"{rule}.md"


def _introduced(page: str, rule: str, lang: str) -> str:
    """Return a page that says below its title what kind of id it explains."""
    is_cause = has_text(f"rule.{rule}.cause")
    kind = text(f"report.explain.{'why' if is_cause else 'what'}", lang)
    title, _, rest = page.partition("\n")
    return f"{title}\n\n{kind}\n{rest}"


def _in_code(rule: str, lang: str) -> str:
    """Return the repair in code for each framework."""
    known = next((fix for fix in fixes() if rule in fix["rules"]), None)
    if known is None:
        return ""
    lines = [f"## {text('report.explain.fixes', lang)}"]
    for framework, name in FRAMEWORKS.items():
        lines += ["", f"{name}:", "", "```python", known[framework].strip(), "```"]
    return "\n".join(lines) + "\n"


@functools.cache
def fixes() -> tuple[Mapping[str, Any], ...]:
    """Return the repairs in code: the rules each is for, and a text by framework."""
    file = files("numcheck.report") / "explain" / "fixes.toml"
    return tuple(tomllib.loads(file.read_text("utf-8")).values())


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
