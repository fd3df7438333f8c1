# SPDX-License-Identifier: Apache-2.0
"""Listening at functions of PyTorch that offer no hook.

Four are needed: where the autograd engine is entered (what it is asked to
differentiate *is* the loss), where gradients are clipped, where a `GradScaler` decides
about its scale, and where a module is compiled. A function is wrapped while somebody
listens, and put back once the last listener is gone. Listening keeps nobody alive.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from numcheck_torch.weak_method import WeakMethod

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["listen", "unlisten"]

Ear = tuple[WeakMethod | None, WeakMethod | None]


class _Door:
    """The listeners at one function."""

    def __init__(self, owner: Any, name: str, inner: Callable[..., Any]) -> None:
        self.where = owner, name
        self.inner = inner
        self.ears: tuple[Ear, ...] = ()


_OPEN: Final[list[_Door]] = []


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
        after: bound method, called with the arguments and the result; what it
            returns, unless None, takes the result's place.
    """
    function = getattr(owner, name, None)
    if function is None:
        return
    door = getattr(function, "numcheck_door", None)
    if door is None:
        door = _Door(owner, name, function)
        setattr(owner, name, _wrapper(door))
        _OPEN.append(door)

    weak = [None if m is None else WeakMethod(m) for m in (before, after)]
    door.ears = (*door.ears, (weak[0], weak[1]))


def unlisten(owner: Any, name: str, listener: object | None) -> None:
    """Stop calling the methods of `listener`; the last one restores the function."""
    door = getattr(getattr(owner, name, None), "numcheck_door", None)
    if door is None:
        return
    door.ears = tuple(ear for ear in door.ears if not _belongs(ear, listener))
    if not door.ears:
        setattr(owner, name, door.inner)
        _OPEN.remove(door)


def _close_left() -> None:
    """Stop calling listeners that are gone, at every function."""
    for door in tuple(_OPEN):
        unlisten(*door.where, None)


def _belongs(ear: Ear, listener: object) -> bool:
    methods = [method for reference in ear if reference if (method := reference())]
    return not methods or any(m.__self__ is listener for m in methods)


def _wrapper(door: _Door) -> Callable[..., Any]:
    inner = door.inner

    # One frame only: it stands in every traceback of the user's own errors.
    @functools.wraps(inner)
    def function(*args: Any, **kwargs: Any) -> Any:
        ears, is_anyone_gone = door.ears, False
        for before, _ in ears:
            if before is not None:
                method = before()
                if method is None:
                    is_anyone_gone = True
                else:
                    method(args, kwargs)
        result = inner(*args, **kwargs)
        for _, after in ears:
            method = None if after is None else after()
            other = None if method is None else method(args, kwargs, result)
            result = result if other is None else other
        # Here and not when a listener dies: a callback of the garbage collector's,
        # inside a compiled program, would be taken for a part of it.
        if is_anyone_gone:
            _close_left()
        return result

    function.numcheck_door = door  # type: ignore[attr-defined]
    return function
