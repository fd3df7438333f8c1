# SPDX-License-Identifier: Apache-2.0
"""Styled lines: wrapping with a hanging indent, tables, and drawing to text.

Text is never read as markup, so names of the user's program cannot style the report.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from numcheck.report.printable import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["GLUE", "Cell", "columns", "drawn", "hanging", "joined"]

Cell = tuple[str, str]
"""A text and its style."""

GLUE: Final = "\ue000"
"""A blank at which no line is broken. It is drawn as a blank; being a private-use
character it cannot come from a printable name."""

_WIDE: Final = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
# What a line may be broken between: runs of blanks, words, single Chinese characters
# with the punctuation that must not start or end a line, and short asides in brackets.
_PIECE: Final = (
    rf"(?:（[\u4e00-\u9fff]{{1,6}}|"
    rf"[（「《]*(?:[^\s{GLUE}{_WIDE}]+|[{_WIDE}]{{2,4}}(?={GLUE})|[{_WIDE}]))"
    r"[，。；：、！？）」》]*"
)
_ATOM: Final = re.compile(rf"\s+|{GLUE}*{_PIECE}(?:{GLUE}+{_PIECE})*{GLUE}*|{GLUE}+")


def drawn(lines: Iterable[Text], width: int, *, colour: bool) -> str:
    """Return the lines as text, with ANSI colours or plain."""
    sink = io.StringIO()
    console = Console(
        file=sink,
        width=max(width, 1),
        color_system="standard" if colour else None,
        force_terminal=colour,
        no_color=not colour,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for line in lines:
        line.plain = line.plain.replace(GLUE, " ")
        line.rstrip()
        console.print(line, soft_wrap=True)
    return sink.getvalue()


def joined(*parts: Cell | str) -> Text:
    """Return one line of plain and styled parts."""
    return Text.assemble(*parts)


def hanging(first: Text, rest: str, body: Text, width: int) -> list[Text]:
    """Return `body` wrapped behind `first`, later lines behind `rest`.

    Args:
        first: what the first line starts with.
        rest: what every other line starts with.
        body: what to wrap, at blanks and between Chinese characters.
        width: cells in a line.
    """
    rooms = (max(width - cell_len(lead), 8) for lead in (first.plain, rest))
    cuts = list(_cuts(body.plain, *rooms))
    lines: list[Text] = []
    for start, end in cuts:
        lead = rest if lines else first
        lines.append(Text.assemble(lead, body[start:end]))
    return lines or [first]


def _cuts(plain: str, first_room: int, room: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each line of a text."""
    start = end = 0
    left = first_room
    for at, stop in _atoms(plain, room):
        if plain[at] == "\n" or cell_len(plain[start:stop].rstrip()) > left:
            yield start, end
            blank = plain[at:stop].isspace()
            start, left = (stop if blank else at), room
        end = stop
    if end > start:
        yield start, end


def _atoms(plain: str, longest: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces between which lines may break, none longer than a line."""
    for match in _ATOM.finditer(plain):
        at, stop = match.span()
        while cell_len(plain[at:stop].strip()) > longest:
            size = longest
            while cell_len(plain[at : at + size]) > longest:
                size -= 1
            yield at, at + size
            at += size
        yield at, stop


def columns(rows: Sequence[Sequence[Cell]], width: int) -> list[Text]:
    """Return rows as aligned columns: the first two left, all others right.

    The second column is cut at its start where a line would be wider than `width`.
    """
    texts = [[text for text, _ in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*texts, strict=True)]
    excess = sum(widths) + 2 * (len(widths) - 1) - width
    widths[1] = max(widths[1] - max(excess, 0), min(widths[1], 6))
    return [_aligned(row, widths) for row in rows]


def _aligned(row: Sequence[Cell], widths: Sequence[int]) -> Text:
    line = Text()
    for i, ((text, style), width) in enumerate(zip(row, widths, strict=True)):
        shown = shortened(text, width)
        gap = " " * (width - cell_len(shown))
        line.append("  " if i else "")
        if i < 2:
            line.append(shown, style).append(gap)
        else:
            line.append(gap).append(shown, style)
    return line
