# SPDX-License-Identifier: Apache-2.0
"""A picture in plain text: the binades of an array above the ranges of formats."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.formats import Format

__all__ = ["picture"]

_BARS: Final = "▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = ".:-=+*#@"
_TICK_EVERY: Final = 10


def picture(
    binades: Mapping[int, int],
    formats: Sequence[Format],
    width: int = 80,
    *,
    unicode: bool = True,
) -> str:
    """Return bars of log(share) per binade, and under them each format's range.

    Args:
        binades: counts by exponent.
        formats: whose ranges to draw: normal numbers solid, subnormal ones dashed.
        width: cells of a line.
        unicode: whether block characters can be shown.

    Example:
        >>> from numcheck.formats import get
        >>> lines = picture({0: 90, 1: 9}, [get("e2m1")], 40, unicode=False)
        >>> [line.strip() for line in lines.splitlines()[1:]]
        ['@=', 'float4_e2m1fn           .===']
    """
    label = max([len(fmt.name) for fmt in formats], default=0)
    columns = max(10, width - label - 1)
    first, step, used = _window(binades, columns)
    bars = _BARS if unicode else _ASCII_BARS
    counts = _binned(binades, first, step, used)
    lines = [
        " " * (label + 1) + _ticks(first, step, used),
        " " * (label + 1) + "".join(_bar(c, max(counts), bars) for c in counts),
    ]
    solid, dashed = ("━", "╌") if unicode else ("=", ".")
    for fmt in formats:
        drawn = _range(fmt, first, step, used, solid, dashed)
        lines.append(f"{fmt.name:<{label}} {drawn}")
    return "\n".join(line.rstrip() for line in lines)


def _window(binades: Mapping[int, int], columns: int) -> tuple[int, int, int]:
    """Return the first exponent, binades a column, and columns used."""
    low, high = min(binades, default=-1), max(binades, default=0)
    # Room on both sides, to see what lies beyond the data.
    room = max(4, (columns - (high - low + 1)) // 2)
    first, last = low - min(room, 16), high + min(room, 16)
    step = math.ceil((last - first + 1) / columns)
    first -= first % step
    return first, step, math.ceil((last - first + 1) / step)


def _binned(
    binades: Mapping[int, int], first: int, step: int, columns: int
) -> list[int]:
    counts = [0] * columns
    for exponent, count in binades.items():
        counts[(exponent - first) // step] += count
    return counts


def _bar(count: int, most: int, bars: str) -> str:
    if count == 0:
        return " "
    if most == 1:
        return bars[-1]
    return bars[round(math.log(count) / math.log(most) * (len(bars) - 1))]


def _ticks(first: int, step: int, columns: int) -> str:
    line = ""
    for exponent in range(first, first + step * columns):
        place = (exponent - first) // step
        if exponent % _TICK_EVERY == 0 and place > len(line):
            line += " " * (place - len(line)) + f"2^{exponent}"
        elif exponent % _TICK_EVERY == 0 and place == 0 and not line:
            line = f"2^{exponent}"
    return line[:columns] if len(line) > columns + 4 else line


def _range(
    fmt: Format, first: int, step: int, columns: int, solid: str, dashed: str
) -> str:
    lowest = math.frexp(fmt.smallest_subnormal)[1] - 1
    normal = math.frexp(fmt.smallest_normal)[1] - 1

    def drawn(column: int) -> str:
        exponent = first + column * step
        if exponent > fmt.emax or exponent + step - 1 < lowest:
            return " "
        return solid if exponent + step - 1 >= normal else dashed

    return "".join(map(drawn, range(columns)))
