# SPDX-License-Identifier: Apache-2.0
"""What the last step of a monitor that nobody closed still holds is told at exit."""

from __future__ import annotations

import atexit
import functools
import sys
import weakref
from typing import TYPE_CHECKING, Protocol

from numcheck.errors import NonFiniteError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["close_at_exit"]


class Closable(Protocol):
    """What can be closed."""

    def close(self) -> None:
        """Deliver what is pending; may raise it."""


def close_at_exit(monitor: Closable) -> Callable[[], None]:
    """Close a monitor when Python ends, unless it is gone by then.

    Args:
        monitor: held weakly.

    Returns:
        What takes the promise back, for a monitor that is closed before.

    Example:
        >>> class Door:
        ...     def close(self): ...
        >>> door = Door()
        >>> forget = close_at_exit(door)
        >>> forget()
    """
    promise = functools.partial(_close, weakref.ref(monitor))
    atexit.register(promise)
    return functools.partial(atexit.unregister, promise)


def _close(reference: weakref.ref[Closable]) -> None:
    monitor = reference()
    if monitor is None:
        return
    try:
        monitor.close()
    except NonFiniteError as error:
        print(error, file=sys.stderr)  # noqa: T201 - nobody is left to catch it
