# SPDX-License-Identifier: Apache-2.0
"""The lines of a finding's card: title, place, facts, chain, cause, help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from numcheck.report.figures import (
    amax_text,
    bits_text,
    count_text,
    infinities_text,
    told_headroom,
)
from numcheck.report.printable import printable, shortened
from numcheck.report.prose import Prose
from numcheck.report.styled import GLUE, columns, hanging, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numcheck.diagnose.finding import Fact, Finding
    from numcheck.record.site import SourceLine
    from numcheck.report.styled import Cell

__all__ = ["card_lines", "follower_lines", "labelled"]

LEVEL_STYLES: Final = {"error": "bold red", "warning": "bold yellow", "note": "bold"}
BAR: Final = "blue"
LOW_HEADROOM_BITS: Final = 2.0
_ROOMY: Final = 60


def card_lines(
    finding: Finding, lang: str | None, width: int, ranks: int = 1
) -> Iterator[Text]:
    """Yield the card of a finding, line by line."""
    prose = Prose(finding, lang, ranks=ranks)
    yield from _headline(prose, width)
    yield from _place(prose, width)
    yield from _facts(prose, width)
    yield from _chain(prose, width)
    for label, style, text in _remarks(prose):
        yield from labelled(prose.label(label), style, Text(text), width)


def follower_lines(
    finding: Finding, lang: str | None, width: int, ranks: int = 1
) -> Iterator[Text]:
    """Yield what is new about a finding whose cause and help were just shown."""
    prose = Prose(finding, lang, ranks=ranks)
    yield from _headline(prose, width)
    yield from _place(prose, width)
    if harm := prose.harm():
        yield from labelled(prose.label("harm"), "bold", Text(harm), width)
    cause = Text(prose.same_cause())
    yield from labelled(prose.label("cause"), "bold magenta", cause, width)


def labelled(label: str, style: str, body: Text, width: int) -> list[Text]:
    """Return ``= label: body``, wrapped."""
    first = joined("   ", ("=", BAR), " ", (label, style))
    return hanging(first, "     ", body, width)


def _headline(prose: Prose, width: int) -> list[Text]:
    level, title = prose.headline()
    style = LEVEL_STYLES[prose.finding.severity]
    first = joined((level, style))
    body = Text(title, "bold")
    if cell_len(level) + cell_len(title) <= width:
        return [Text.assemble(first, body)]
    return hanging(first, "  ", body, width - cell_len(level) + 2)


def _place(prose: Prose, width: int) -> Iterator[Text]:
    source, aside = prose.finding.site.source, prose.aside()
    if source is None:
        body = joined(prose.where_read(), (f"  {aside}" if aside else "", "dim"))
        yield from hanging(joined(("  --> ", BAR)), "      ", body, width)
        yield from labelled(prose.label("note"), "bold", Text(prose.mark()), width)
        return
    place = prose.place()
    gap = "   " if cell_len(place) + cell_len(aside) + 9 <= width else "\n"
    body = joined(place, (gap + aside, "dim"))
    yield from hanging(joined(("  --> ", BAR)), "      ", body, width)
    if source.text:
        yield from _quoted(source, prose.mark(), width)
    else:  # typed into an interpreter, or compiled from a string
        yield from labelled(prose.label("note"), "bold", Text(prose.mark()), width)


def _quoted(source: SourceLine, mark: str, width: int) -> Iterator[Text]:
    """Yield the user's line with the mark under it, as a compiler does."""
    number = str(source.line)
    margin = " " * max(3, len(number) + 1)
    bar = joined(margin, ("|", BAR))
    yield bar
    indent = " " * (5 if width >= _ROOMY else 1)
    room = width - len(margin) - 1 - len(indent)
    line = printable(source.text)
    shown = line if cell_len(line) <= room else _cut(line, room)
    yield joined((f"{number:<{len(margin)}}|", BAR), indent, shown)
    carets = "^" * cell_len(shown)
    first = joined(margin, ("|", BAR), indent, (carets, "red"), " " if carets else "")
    if cell_len(first.plain) + cell_len(mark) > width:
        yield first
        first = joined(margin, ("|", BAR), indent)
    yield from hanging(first, f"{margin} {indent}", Text(mark, "red"), width)
    yield bar


def _cut(line: str, cells: int) -> str:
    return shortened(line[::-1], cells)[::-1]


def _facts(prose: Prose, width: int) -> list[Text]:
    facts = prose.finding.facts
    if not facts:
        return []
    names = ("dtype", "amax", "headroom", "inf", "nan")
    header: list[Cell] = [("", ""), ("", "")]
    header += [(prose.say(f"report.column.{name}"), "dim") for name in names]
    rows = [_fact_row(prose, fact) for fact in facts]
    table = columns([header, *rows], width)
    if max(cell_len(line.plain) for line in table) <= width:
        return table
    return [line for row in rows for line in _stacked(header, row, width)]


def _stacked(header: Sequence[Cell], row: Sequence[Cell], width: int) -> Iterator[Text]:
    """Yield a fact as a small paragraph, where a table would be too wide."""
    (label, _), (name, _), *values = row
    yield from hanging(joined(f"{label} "), "  ", Text(name), width)
    body = Text()
    for (column, _), (value, style) in zip(header[2:], values, strict=True):
        body.append("  " if body else "").append(f"{column}{GLUE}").append(value, style)
    yield from hanging(joined("    "), "    ", body, width)


def _fact_row(prose: Prose, fact: Fact) -> list[Cell]:
    summary = fact.summary
    bits = told_headroom(summary, fact.dtype, prose.finding.id)
    low = bits is not None and bits < LOW_HEADROOM_BITS
    nan = count_text(summary.nan, present=summary.has_nan)
    return [
        (prose.say(f"report.fact.{fact.label}"), ""),
        (printable(fact.name), ""),
        (printable(fact.dtype), ""),
        (amax_text(summary), ""),
        (_with_unit(prose, bits), "red" if low else ""),
        (infinities_text(summary), "red" if summary.has_inf else ""),
        (nan, "red" if summary.has_nan else ""),
    ]


def _with_unit(prose: Prose, bits: float | None) -> str:
    if bits is None:
        return bits_text(bits)
    return prose.say("report.column.bits", bits=bits_text(bits))


def _chain(prose: Prose, width: int) -> list[Text]:
    links = prose.chain()
    body = Text()
    for i, link in enumerate(links):
        body.append(f"{GLUE}→ " if i else "")
        style = "red" if link.is_bad else "yellow" if link.is_low else ""
        body.append(link.text.replace(" ", GLUE), style)
    return labelled(prose.label("chain"), "bold", body, width) if links else []


def _remarks(prose: Prose) -> Iterator[tuple[str, str, str]]:
    """Yield (label, style, text) of everything below the chain."""
    for text in prose.notes():
        yield "note", "bold", text
    for seen, text in prose.evidence():
        yield ("seen" if seen else "inferred"), "bold", text
    if harm := prose.harm():
        yield "harm", "bold", harm
    yield "cause", "bold magenta", prose.cause()
    for text in prose.help():
        yield "help", "bold green", text
