# SPDX-License-Identifier: Apache-2.0
"""Lines of the user's program: noting one, and calling something from it again.

A replay calls what the user called, but from numcheck's own frames; whoever looks for
the user's line there finds none. `call_at` makes the call from a frame that carries
the file, line and function name noted the first time.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType, FrameType

__all__ = ["Place", "call_at", "is_library", "nearest_place"]

_LIBRARIES = (
    os.path.dirname(torch.__file__) + os.sep,  # noqa: PTH120 - compared as text, hot
    os.path.dirname(__file__) + os.sep,  # noqa: PTH120 - as above
)


class Place(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str


_MOST_PLACES = 4096
_known: dict[tuple[int, int], tuple[Place, CodeType]] = {}
"""Places by code and instruction; the code is held, so that no other has its id."""


def nearest_place(frame: FrameType | None) -> Place | None:
    """Return the innermost line, from `frame` outwards, that is not a library's."""
    while frame is not None:
        code = frame.f_code
        known = _known.get((id(code), frame.f_lasti))
        if known is not None:
            return known[0]
        if not is_library(code.co_filename):
            return _noted(frame, code)
        frame = frame.f_back
    return None


def _noted(frame: FrameType, code: CodeType) -> Place:
    if len(_known) >= _MOST_PLACES:
        _known.clear()
    place = Place(code.co_filename, frame.f_lineno, code.co_qualname)
    _known[id(code), frame.f_lasti] = place, code
    return place


@functools.cache
def is_library(file: str) -> bool:
    """Whether a file belongs to PyTorch or to numcheck."""
    return file.startswith(_LIBRARIES)


def call_at(
    place: Place | None,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Return ``function(*args, **kwargs)``, called as if from `place`.

    Example:
        >>> import sys
        >>> here = lambda: sys._getframe(1).f_lineno
        >>> call_at(Place("model.py", 12, "Net.forward"), here, (), {})
        12
    """
    if place is None:
        return function(*args, **kwargs)
    scope: dict[str, Any] = {"function": function, "args": args, "kwargs": kwargs}
    exec(_code(place), scope)  # noqa: S102 - the text is ours; only its place is theirs
    return scope["result"]


@functools.lru_cache(maxsize=1024)
def _code(place: Place) -> CodeType:
    text = "\n" * (place.line - 1) + "result = function(*args, **kwargs)"
    code = compile(text, place.file, "exec")
    name = place.function.rpartition(".")[2]
    return code.replace(co_name=name, co_qualname=place.function)
