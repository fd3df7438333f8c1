# SPDX-License-Identifier: Apache-2.0
"""What of a class is alive in this process."""

from __future__ import annotations

import gc
from typing import TypeVar

__all__ = ["living"]

T = TypeVar("T")


def living(kind: type[T]) -> list[T]:
    """Return the living objects of a class and of the classes made from it.

    Example:
        >>> class Opened: ...
        >>> one = Opened()
        >>> living(Opened) == [one]
        True
    """
    classes: set[type] = set()
    todo: list[type] = [kind]
    while todo:
        found = todo.pop()
        classes.add(found)
        todo += set(type.__subclasses__(found)) - classes
    # By type, not isinstance: proxies of other libraries run code when asked.
    return [o for o in gc.get_objects() if type(o) in classes]
