# SPDX-License-Identifier: Apache-2.0
"""Warns at the user's line, however deep inside numcheck the reason was found."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["user_frame", "warn_at_user"]


def warn_at_user(text: str, category: type[Warning]) -> None:
    """Issue a warning that names the line of the user's program under way.

    Example:
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     warn_at_user("odd", UserWarning)
        >>> caught[0].message, "numcheck" in caught[0].filename.split(os.sep)[-1]
        (UserWarning('odd'), False)
    """
    frame = user_frame()
    warnings.warn_explicit(
        text,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__", "<string>"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def user_frame() -> FrameType:
    """Return the innermost frame of the user's program.

    Where only libraries are running, it is the innermost outside numcheck; where
    nothing but numcheck is, the outermost.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - the only way to look at the callers
    outside: FrameType | None = None
    while True:
        if not _is_ours(frame):
            outside = outside or frame
            if not _is_library(frame.f_code.co_filename):
                return frame
        if frame.f_back is None:
            return outside or frame
        frame = frame.f_back


def _is_ours(frame: FrameType) -> bool:
    root = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return root == "numcheck" or root.startswith("numcheck_")


def _is_library(file: str) -> bool:
    return file.startswith(("<frozen", *_libraries()))


@functools.cache
def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(sorted({paths[name] + os.sep for name in names}))
