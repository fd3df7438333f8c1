# SPDX-License-Identifier: Apache-2.0
"""What the last step of a monitor that nobody closed still holds is told at exit."""

from __future__ import annotations

import atexit
import sys
import weakref
from typing import Protocol

from numcheck.errors import NonFiniteError

__all__ = ["close_at_exit"]


class Closable(Protocol):
    """What can be closed."""

    def close(self) -> None:
        """Deliver what is pending; may raise it."""


def close_at_exit(monitor: Closable) -> None:
    """Close a monitor when Python ends, unless it is gone by then."""
    atexit.register(_close, weakref.ref(monitor))


def _close(ref: weakref.ref[Closable]) -> None:
    monitor = ref()
    if monitor is None:
        return
    try:
        monitor.close()
    except NonFiniteError as error:
        print(error, file=sys.stderr)  # noqa: T201 - nobody is left to catch it
