# SPDX-License-Identifier: Apache-2.0
"""JSON as other tools leave it: bare NaN and Infinity, and files cut off half-way."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from numcheck.errors import DumpError
from numcheck.record.notice import notice

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_json", "salvage"]

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[\s,]*")
_COLON = re.compile(r"\s*:\s*")


def read_json(path: Path, notes: list[str]) -> dict[str, Any]:
    """Return the object in a file; of a file cut off half-way, what is whole.

    Args:
        path: the file.
        notes: gets a line when something was lost.

    Raises:
        DumpError: the file cannot be read, or holds no JSON object at all.
    """
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        msg = f"{path} cannot be read: {error}"
        raise DumpError(msg) from error
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        found = salvage(text)
        notes.append(notice("unread.cut_off", file=path.name, error=error))
    if not isinstance(found, dict):
        msg = f"{path} holds no JSON object, so it is no dump"
        raise DumpError(msg)
    return found


def salvage(text: str, depth: int = 2) -> dict[str, Any] | None:
    """Return the members of a cut-off object that are whole; None when it is none.

    Args:
        text: the text of the object.
        depth: how many levels of objects may themselves be cut off.

    Example:
        >>> salvage('{"a": NaN, "data": {"x": 1, "y": [1, 2')
        {'a': nan, 'data': {'x': 1}}
    """
    start = text.find("{")
    return None if start < 0 else _members(text, start + 1, depth)


def _members(text: str, at: int, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while True:
        key, at = _value(text, _after(_SPACE, text, at))
        if not isinstance(key, str):
            return found
        at = _after(_COLON, text, at)
        value, end = _value(text, at)
        if end < 0:
            # The cut lies inside this member.
            if depth > 1 and text[at : at + 1] == "{":
                found[key] = _members(text, at + 1, depth - 1)
            return found
        found[key], at = value, end


def _value(text: str, at: int) -> tuple[Any, int]:
    """Return the value at a place and where it ends; -1 when it is not whole."""
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, -1


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()
