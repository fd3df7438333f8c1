# SPDX-License-Identifier: Apache-2.0
"""Listening at functions of PyTorch that offer no hook.

Four are needed: where the autograd engine is entered (what it is asked to
differentiate *is* the loss), where gradients are clipped, where a `GradScaler` decides
about its scale, and where a module is compiled. A function is wrapped while somebody
listens, and put back when the last listener leaves. Listening keeps nobody alive.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["listen", "unlisten"]

Ear = tuple["weakref.WeakMethod[Any] | None", "weakref.WeakMethod[Any] | None"]


class _Door:
    """The listeners at one function."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        self.inner = inner
        self.ears: list[Ear] = []

    def call(self, *args: Any, **kwargs: Any) -> Any:
        ears = tuple(self.ears)
        for before, _ in ears:
            _tell(before, args, kwargs)
        result = self.inner(*args, **kwargs)
        for _, after in ears:
            other = _tell(after, args, kwargs, result)
            result = result if other is None else other
        return result


def _tell(ear: weakref.WeakMethod[Any] | None, *news: Any) -> Any:
    method = None if ear is None else ear()
    return None if method is None else method(*news)


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
        door = _Door(function)
        setattr(owner, name, _wrapper(door))

    def prune(_: Any) -> None:
        """Close the door when the last listener died."""
        unlisten(owner, name, None)

    weak = [
        None if m is None else weakref.WeakMethod(m, prune) for m in (before, after)
    ]
    door.ears.append((weak[0], weak[1]))


def unlisten(owner: Any, name: str, listener: object | None) -> None:
    """Stop calling the methods of `listener`; the last one restores the function."""
    door = getattr(getattr(owner, name, None), "numcheck_door", None)
    if door is None:
        return
    door.ears = [ear for ear in door.ears if not _belongs(ear, listener)]
    if not door.ears:
        setattr(owner, name, door.inner)


def _belongs(ear: Ear, listener: object) -> bool:
    methods = [method for reference in ear if reference if (method := reference())]
    return not methods or any(m.__self__ is listener for m in methods)


def _wrapper(door: _Door) -> Callable[..., Any]:
    @functools.wraps(door.inner)
    def function(*args: Any, **kwargs: Any) -> Any:
        return door.call(*args, **kwargs)

    function.numcheck_door = door  # type: ignore[attr-defined]
    return function
