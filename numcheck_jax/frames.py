# SPDX-License-Identifier: Apache-2.0
"""Tracebacks that show the user's frames, without numcheck's between them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["outside"]

_HERE: Final = str(Path(__file__).parent)


def outside(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback from its first frame that is not numcheck's on.

    An error of numcheck's own, which has no other frames, keeps them.
    """
    found = traceback
    while found is not None:
        if not found.tb_frame.f_code.co_filename.startswith(_HERE):
            return found
        found = found.tb_next
    return traceback
