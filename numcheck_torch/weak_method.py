# SPDX-License-Identifier: Apache-2.0
"""Refers to a bound method without keeping its object alive.

`weakref.WeakMethod` does so too, but has a callback of its own, which the interpreter
calls at exit when what it needs is torn down, and prints its failure.
"""

from __future__ import annotations

import weakref
from typing import Any

__all__ = ["WeakMethod"]


class WeakMethod:
    """A bound method, as long as its object lives.

    Args:
        method: the bound method.

    Example:
        >>> import torch
        >>> linear = torch.nn.Linear(2, 1)
        >>> method = WeakMethod(linear.forward)
        >>> method() == linear.forward
        True
        >>> del linear
        >>> method() is None
        True
    """

    __slots__ = ("_function", "_owner")

    def __init__(self, method: Any) -> None:
        self._owner: weakref.ref[Any] = weakref.ref(method.__self__)
        self._function = method.__func__

    def __call__(self) -> Any:
        """Return the bound method; None once its object is gone."""
        owner = self._owner()
        return None if owner is None else self._function.__get__(owner)
