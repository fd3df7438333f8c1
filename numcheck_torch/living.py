# SPDX-License-Identifier: Apache-2.0
"""What of a class is alive in this process."""

from __future__ import annotations

import gc
import itertools
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
    classes: set[type[T]] = set()
    todo: list[type[T]] = [kind]
    while todo:
        found = todo.pop()
        classes.add(found)
        todo += set(type.__subclasses__(found)) - classes
    # A tuple that another thread is putting together must have no second reference
    # when that goes on, or its making fails. A list of all objects must not outlast
    # the call that reads it; from a list of those that refer to a class such tuples
    # are missing.
    every = itertools.chain.from_iterable(map(gc.get_objects, (None,)))
    present = set(map(id, map(type, every)))
    alive = [c for c in classes if id(c) in present]
    # By type, not isinstance: proxies of other libraries run code when asked.
    return [o for o in gc.get_referrers(*alive) if type(o) in classes]
