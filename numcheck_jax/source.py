# SPDX-License-Identifier: Apache-2.0
"""The user's line behind an equation."""

from __future__ import annotations

import functools
import importlib.util
import linecache
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jax.extend import source_info_util

from numcheck.record.site import SourceLine

if TYPE_CHECKING:
    from jax.extend.source_info_util import SourceInfo

__all__ = ["user_line"]

_LIBRARIES: Final = (
    "chex",
    "equinox",
    "flax",
    "jax",
    "jaxlib",
    "numcheck",
    "numcheck_jax",
    "optax",
    "orbax",
)
# The demonstration is a user's program that happens to be shipped with numcheck.
_DEMO: Final = str(Path(__file__).with_name("demo.py"))
_FRAME: Final = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)? \((?P<name>.*)\)")
_DEPTH: Final = 64


def user_line(info: SourceInfo) -> SourceLine | None:
    """Return the innermost line of the user's own program that led to an equation.

    Frames of jax and of the libraries built on it are skipped. None when no frame of
    the user is known, as inside bodies that a library traced for itself.
    """
    return _line_of(source_info_util.summarize(info, num_frames=_DEPTH))


@functools.lru_cache(maxsize=8192)
def _line_of(frames: str) -> SourceLine | None:
    for text in reversed(frames.splitlines()):
        match = _FRAME.fullmatch(text.strip())
        if match and _is_users(match["file"]):
            file, line = match["file"], int(match["line"])
            words = linecache.getline(file, line).strip()
            return SourceLine(file, line, match["name"], words)
    return None


def _is_users(file: str) -> bool:
    return file == _DEMO or not file.startswith(_library_folders())


@functools.cache
def _library_folders() -> tuple[str, ...]:
    folders: list[Any] = []
    for name in _LIBRARIES:
        spec = importlib.util.find_spec(name)
        folders.extend((spec.submodule_search_locations or ()) if spec else ())
    return tuple(f"{f}{os.sep}" for f in folders)
