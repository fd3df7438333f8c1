# SPDX-License-Identifier: Apache-2.0
"""Output on streams whose encoding lacks some of the characters to be written.

Outside UTF-8 (a pipe on Windows, a terminal in a legacy locale) there is often no minus
sign, and a number must not lose its sign, let alone the command end in an error. So a
character that cannot be written is told by others: typography by its plain form, what
no encoding can hold (an undecodable byte of a file's name) by that byte, anything else
by an escape that JSON reads back.
"""

from __future__ import annotations

import codecs
import io
import sys
from typing import Final

__all__ = ["make_writable"]

_PLAIN: Final = {
    "\u2212": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u00d7": "x",
    "\u00b7": ".",
    "\u2026": "...",
    "\u2192": "->",
    "\u2190": "<-",
    "\u2264": "<=",
    "\u2265": ">=",
    "\u2248": "~",
    "\u221e": "inf",
    "\u2018": "'",
    "\u2019": "'",
}
_ERRORS: Final = "numcheck.encodable"


def make_writable() -> None:
    """Let standard output and standard error take any character.

    Example:
        >>> make_writable()
        >>> "−1 → 2×".encode("ascii", "numcheck.encodable")
        b'-1 -> 2x'
    """
    codecs.register_error(_ERRORS, _stand_in)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def _stand_in(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    after = error.start + 1
    if 0xDC80 <= ord(character) <= 0xDCFF:
        return bytes([ord(character) - 0xDC00]), after
    if character in _PLAIN:
        return _PLAIN[character], after
    halves = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{halves[i : i + 4]}" for i in range(0, len(halves), 4)), after
