# SPDX-License-Identifier: Apache-2.0
"""Listening at functions of PyTorch that offer no hook.

Five are needed: where a program asks for gradients and where the autograd engine is
entered (what it is asked to differentiate *is* the loss), where gradients are clipped,
where a `GradScaler` decides about its scale, and where a module is compiled. A function
is wrapped while somebody listens, and put back once the last listener is gone.
Listening keeps nobody alive.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

__all__ = ["listen", "unlisten"]

Ear = tuple[weakref.ref[Any], Callable[..., Any] | None, Callable[..., Any] | None]
"""Who listens, and the functions of its class to call before and after."""


class _Door:
    """The listeners at one function."""

    def __init__(self, owner: Any, name: str, inner: Callable[..., Any]) -> None:
        self.where = owner, name
        self.inner = inner
        self.outer = _wrapper(self)
        self.ears: tuple[Ear, ...] = ()


_OPEN: Final[list[_Door]] = []
_LOCK: Final = threading.RLock()


def listen(
    owner: Any,
    name: str,
    *,
    before: Callable[[tuple[Any, ...], dict[str, Any]], None] | None = None,
    after: Callable[[tuple[Any, ...], dict[str, Any], Any], Any] | None = None,
) -> None:
    """Call methods around every call of the function `name` of `owner`.

    Args:
        owner: module or class.
        name: its function; nothing happens where this version of PyTorch has none.
        before: bound method, called with the arguments.
        after: bound method of the same object, called with the arguments and the
            result; what it returns, unless None, takes the result's place.
    """
    methods: list[Any] = [before, after]
    owners = [m.__self__ for m in methods if m is not None]
    functions = [None if m is None else m.__func__ for m in methods]
    ear = (weakref.ref(owners[0]), functions[0], functions[1])
    with _LOCK:
        function = getattr(owner, name, None)
        if function is None:
            return
        door = getattr(function, "numcheck_door", None)
        if door is None:
            door = _Door(owner, name, function)
            setattr(owner, name, door.outer)
            _OPEN.append(door)
        door.ears = (*door.ears, ear)


def unlisten(owner: Any, name: str, listener: object | None) -> None:
    """Stop calling the methods of `listener`; the last one restores the function."""
    with _LOCK:
        door = getattr(getattr(owner, name, None), "numcheck_door", None)
        if door is None:
            return
        known = ((ear, ear[0]()) for ear in door.ears)
        door.ears = tuple(e for e, k in known if k is not None and k is not listener)
        # Somebody may have wrapped it since: then it stays, and only hands calls on.
        if not door.ears and getattr(owner, name) is door.outer:
            setattr(owner, name, door.inner)
            _OPEN.remove(door)


def _close_left() -> None:
    """Stop calling listeners that are gone, at every function."""
    for door in tuple(_OPEN):
        unlisten(*door.where, None)


def _wrapper(door: _Door) -> Callable[..., Any]:
    inner = door.inner

    # One frame only: it stands in every traceback of the user's own errors.
    @functools.wraps(inner)
    def function(*args: Any, **kwargs: Any) -> Any:
        ears, is_anyone_gone = door.ears, False
        for reference, before, _ in ears:
            listener = reference()
            if listener is None:
                is_anyone_gone = True
            elif before is not None:
                before(listener, args, kwargs)
        result = inner(*args, **kwargs)
        for reference, _, after in ears:
            listener = reference()
            if listener is not None and after is not None:
                other = after(listener, args, kwargs, result)
                result = result if other is None else other
        # Here and not when a listener dies: a callback of the garbage collector's,
        # inside a compiled program, would be taken for a part of it.
        if is_anyone_gone:
            _close_left()
        return result

    function.numcheck_door = door  # type: ignore[attr-defined]
    return function
