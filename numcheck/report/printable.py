# SPDX-License-Identifier: Apache-2.0
"""Making names and source lines of the user's program safe to print."""

from __future__ import annotations

import unicodedata
from typing import Final

__all__ = ["printable", "shortened"]

# Control characters move the cursor or colour the terminal, format characters (Cf)
# reorder text (bidirectional overrides), surrogates cannot be encoded.
_UNPRINTABLE: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def printable(text: str) -> str:
    r"""Return `text` with every character that could act on a terminal escaped.

    Example:
        >>> printable("a\x1b[31mb\u202e")
        'a\\x1b[31mb\\u202e'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c if unicodedata.category(c) not in _UNPRINTABLE else _escaped(c) for c in text
    )


def _escaped(character: str) -> str:
    if character == "\t":
        return "    "
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def shortened(text: str, cells: int) -> str:
    """Return `text` cut at its start to at most `cells` terminal cells.

    The end of a module path says more than its start.

    Example:
        >>> shortened("decoder.layers.35.mlp", 10)
        '…rs.35.mlp'
    """
    from rich.cells import cell_len

    if cell_len(text) <= cells:
        return text
    while text and cell_len(text) > cells - 1:
        text = text[1:]
    return "…" + text
