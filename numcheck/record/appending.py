# SPDX-License-Identifier: Apache-2.0
"""Appending to the files of a run, whole records or nothing.

A disk may be full for a moment and not the next, and a Ctrl-C may come between two
pieces. What was written of a record is taken back then, so that the records after it
are where a reader looks for them.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["append", "write_whole"]


def append(path: Path, data: bytes) -> None:
    """Append to a file, which is made where there is none.

    The file is opened anew each time: nothing stays open that a crash or a fork could
    harm.

    Raises:
        OSError: not all could be written; the file is as it was before, as it is
            after an interrupt.
    """
    with path.open("ab", buffering=0) as file:
        before, rest = file.tell(), memoryview(data)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except BaseException:
            with contextlib.suppress(OSError):
                file.truncate(before)
            raise


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that at no moment is there in part."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
