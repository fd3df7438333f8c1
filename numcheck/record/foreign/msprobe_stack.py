# SPDX-License-Identifier: Apache-2.0
"""The user's line of each call, out of a ``stack.json``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from numcheck.record.site import SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["source_lines"]

_FRAME: Final = re.compile(
    r"File (?P<file>.+), line (?P<line>\d+), in (?P<function>[^,]+),?\s*(?P<text>.*)",
    re.DOTALL,
)
_LIBRARIES: Final = re.compile(
    r"(site|dist)-packages|/(torch|torch_npu|msprobe|mindspore)/|lib/python3|<frozen"
)


def source_lines(stack: Mapping[str, Any]) -> dict[str, SourceLine]:
    """Return for each call the innermost line that is no library's.

    Args:
        stack: the file's object: number → [names, frames], or name → frames.
    """
    found = {}
    for names, frames in _listed(stack):
        line = _innermost(frames)
        if line is not None:
            found.update(dict.fromkeys(names, line))
    return found


def _listed(stack: Mapping[str, Any]) -> Iterator[tuple[list[str], list[str]]]:
    for key, value in stack.items():
        if not isinstance(value, list):
            continue
        if len(value) == 2 and all(isinstance(part, list) for part in value):
            names, frames = value
        else:
            names, frames = [key], value
        yield [str(n) for n in names], [str(f) for f in frames]


def _innermost(frames: list[str]) -> SourceLine | None:
    lines = [line for f in frames if (line := _line(f)) is not None]
    own = [line for line in lines if not _LIBRARIES.search(line.file)]
    return next(iter(own or lines), None)


def _line(frame: str) -> SourceLine | None:
    match = _FRAME.match(frame)
    if match is None:
        return None
    return SourceLine(
        file=match["file"],
        line=int(match["line"]),
        function=match["function"].strip(),
        text=match["text"].strip(),
    )
