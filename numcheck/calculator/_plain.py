# SPDX-License-Identifier: Apache-2.0
"""Numbers, tables and JSON as the calculator prints them."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import sys
from typing import TYPE_CHECKING, Any

from numcheck.report.messages import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "as_json",
    "bits_text",
    "number",
    "power",
    "share",
    "short",
    "table",
    "wrapped",
    "yes_no",
]


def number(value: float | None) -> str:
    """Return a number exactly where that is short, else with nine digits.

    Example:
        >>> number(65504.0), number(127.99609375), number(3.3895313892515355e38)
        ('65504', '127.99609375', '3.38953139e+38')
        >>> number(-0.5), number(None)
        ('−0.5', '–')
        >>> number(float("-inf")), number(float("nan"))
        ('−Inf', 'NaN')
    """
    if value is None:
        return "–"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "\u2212Inf"
    exact = f"{value:.12g}"
    short = exact if float(exact) == value and len(exact) <= 13 else f"{value:.9g}"
    return short.replace("-", "\u2212", 1) if short.startswith("-") else short


def power(value: float) -> str:
    """Return a number as a power of two where it is one, else as `number` does.

    Example:
        >>> power(2.0**-24), power(448.0)
        ('2^-24', '448')
    """
    if not 0 < value < math.inf:
        return number(value)
    fraction, exponent = math.frexp(value)
    if fraction != 0.5 or -8 < exponent < 15:
        return number(value)
    return f"2^{exponent - 1}"


def short(value: float) -> str:
    """Return a positive number in few characters, exactly where that is possible.

    Example:
        >>> short(65504.0), short(2.0**-6), short(3.3895313892515355e38)
        ('65504', '2^-6', '3.39e+38')
    """
    fraction, exponent = math.frexp(value)
    if fraction == 0.5 and not 1 <= value < 1e6:
        return f"2^{exponent - 1}"
    exact = f"{value:.12g}"
    return exact if float(exact) == value and len(exact) <= 8 else f"{value:.4g}"


def bits_text(value: float | None) -> str:
    """Return a distance in bits with its sign.

    Example:
        >>> bits_text(1.25), bits_text(-0.0004), bits_text(-4.4e-5), bits_text(None)
        ('+1.25', '−0.0004', '−4e-05', '–')
    """
    if value is None:
        return "–"
    if math.isinf(value):
        return "+∞" if value > 0 else "−∞"
    if 0 < abs(value) < 1e-4:
        return f"{value:+.0e}".replace("-", "\u2212", value < 0)
    digits = 2 if abs(value) >= 0.01 or value == 0 else 4
    return f"{value:+.{digits}f}".replace("-", "\u2212")


def share(value: float) -> str:
    """Return a share as a percentage that is 0 or 100 only when it is that.

    Example:
        >>> share(0.0), share(1e-7), share(0.12345), share(0.9999999)
        ('0 %', '<0.01 %', '12.3 %', '>99.9 %')
    """
    if value in (0, 1):
        return f"{100 * value:.0f} %"
    if value < 1e-4:
        return "<0.01 %"
    if value > 0.999:
        return ">99.9 %"
    return f"{100 * value:.3g} %"


def yes_no(claim: bool, lang: str | None) -> str:  # noqa: FBT001 - the claim itself
    """Return yes or no in a language."""
    return text("calculator.yes" if claim else "calculator.no", lang)


def as_json(data: object) -> str:
    """Return JSON that any reader accepts: non-finite numbers are strings.

    Example:
        >>> as_json({"a": float("inf")}).split()
        ['{', '"a":', '"inf"', '}']
    """
    return json.dumps(_plain(data), allow_nan=False, ensure_ascii=False, indent=2)


def _plain(data: Any) -> Any:  # noqa: ANN401 - anything that becomes JSON
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        names = (field.name for field in dataclasses.fields(data))
        return {name: _plain(getattr(data, name)) for name in names}
    if isinstance(data, dict):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return "nan" if math.isnan(data) else "inf" if data > 0 else "-inf"
    return data


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1
) -> str:
    """Return rows in columns, the first `left` of them aligned to the left.

    Example:
        >>> print(table(["name", "max"], [["fp16", "65504"], ["e4m3", "448"]]))
        name    max
        fp16  65504
        e4m3    448
    """
    from rich.cells import cell_len

    lines = [list(header), *map(list, rows)]
    widths = [max(cell_len(line[i]) for line in lines) for i in range(len(lines[0]))]

    def placed(cell: str, i: int) -> str:
        blank = " " * (widths[i] - cell_len(cell))
        return cell + blank if i < left else blank + cell

    return "\n".join(
        "  ".join(placed(cell, i) for i, cell in enumerate(line)).rstrip()
        for line in lines
    )


def wrapped(line: str, first: str = "", rest: str = "") -> str:
    """Return prose in lines that fit the terminal.

    Args:
        line: what to wrap.
        first: what the first line starts with.
        rest: what the others start with.

    Example:
        >>> print(wrapped("word " * 3, "- ", "  "))
        - word word word
    """
    from rich.text import Text

    from numcheck.report.styled import hanging

    lines = hanging(Text(first), rest, Text(line), width())
    return "\n".join(one.plain.rstrip() for one in lines)


def width() -> int:
    """Return the cells of a line of the terminal.

    Example:
        >>> width() >= 20
        True
    """
    return max(20, shutil.get_terminal_size().columns)


def speaks_unicode() -> bool:
    """Whether standard output can show block characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        "▁█━╌".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
