# SPDX-License-Identifier: Apache-2.0
"""The line of the user's program that an operator comes from.

Frames of PyTorch, of numcheck and of the interpreter's own plumbing are passed over;
every other library (transformers, timm…) counts as the user's program.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

import numcheck
from numcheck.record.site import SourceLine
from numcheck_torch.autograd_nodes import is_engine

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["is_users", "user_line"]

_PACKAGES: Final = tuple(
    os.path.join(path, "")  # noqa: PTH118 - a prefix with its separator, for startswith
    for path in (
        Path(torch.__file__).parent,
        Path(numcheck.__file__).parent,
        Path(__file__).parent,
    )
)
# The demonstration is a user's program that happens to be shipped with numcheck.
_DEMO: Final = str(Path(__file__).with_name("demo.py"))
_PLUMBING: Final = (contextlib.__file__, functools.__file__, "<frozen ", "<string>")


def user_line(
    depth: int = 1,
    fallback: SourceLine | None = None,
    *,
    in_engine: bool = False,
) -> SourceLine | None:
    """Return the innermost line of the calling program that is not a framework's.

    Args:
        depth: how many frames of the caller's own to leave out.
        fallback: returned when the frames lead back into numcheck before a line of
            the user's is met, as they do where numcheck re-runs a stock module.
        in_engine: look only at what the autograd engine calls (hooks and a custom
            function's own backward), not at who called the engine.

    Example:
        >>> line = user_line()
        >>> line is None or line.line > 0
        True
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and _is_numcheck(frame.f_code.co_filename):
        frame = frame.f_back
    while frame is not None:
        code = frame.f_code
        if in_engine and is_engine(code):
            return None
        if fallback is not None and _is_numcheck(code.co_filename):
            return fallback
        if not _is_framework(code.co_filename):
            return _line(code.co_filename, code.co_qualname, frame.f_lineno)
        frame = frame.f_back
    return fallback


def is_users(filename: str) -> bool:
    """Whether a file is of the user's program or a library of theirs.

    Example:
        >>> is_users(torch.__file__), is_users("train.py")
        (False, True)
    """
    return not _is_framework(filename)


@functools.cache
def _is_framework(filename: str) -> bool:
    return filename.startswith(_PACKAGES + _PLUMBING) and filename != _DEMO


@functools.cache
def _is_numcheck(filename: str) -> bool:
    return filename.startswith(_PACKAGES[1:]) and filename != _DEMO


@functools.lru_cache(maxsize=4096)
def _line(filename: str, function: str, number: int) -> SourceLine:
    # Not by code object: equal programs in two files have equal ones.
    text = linecache.getline(filename, number).strip()
    return SourceLine(filename, number, function, text)
