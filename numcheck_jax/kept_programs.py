# SPDX-License-Identifier: Apache-2.0
"""What was made of each kind of call, found again for the next call of that kind.

A program takes some leaves of a call as its arguments; every other leaf is a constant
of it: a static argument, or a number that a plain function may look at. It stands for
a call whose constants are the same.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    from numcheck_jax.capture import Call

__all__ = ["KeptPrograms"]

_MOST: Final = 16
"""Of calls that differ in constants alone; a number that changes at each step makes a
new program each time, as a static argument does for `jax.jit`."""

_Made = TypeVar("_Made")


class KeptPrograms(Generic[_Made]):
    """What was made for calls, the last few of each kind."""

    def __init__(self) -> None:
        """Start without any."""
        self._kinds: dict[object, list[tuple[dict[int, object], _Made]]] = {}

    def find(self, call: Call) -> _Made | None:
        """Return what was made for such a call before; None the first time."""
        made = self._kinds.get(_kind(call), [])
        for i, (constants, found) in enumerate(made):
            if all(_token(call.given[k]) == held for k, held in constants.items()):
                made.append(made.pop(i))
                return found
        return None

    def keep(self, call: Call, inputs: Collection[int] | None, made: _Made) -> bool:
        """Keep what was made; return whether another was forgotten for it.

        Args:
            call: what it was made for.
            inputs: positions of the leaves that it takes as arguments; None for what
                stands for all calls of the kind.
            made: what is kept.
        """
        constants = {}
        if inputs is not None:
            leaves = enumerate(call.given)
            constants = {i: _token(x) for i, x in leaves if i not in inputs}
        others = self._kinds.setdefault(_kind(call), [])
        others.append((constants, made))
        if len(others) <= _MOST:
            return False
        del others[0]
        return True


def _kind(call: Call) -> object:
    """Return what two calls must share besides constants; hashable."""
    return call.treedef, tuple(map(_kind_of_leaf, call.given))


def _kind_of_leaf(leaf: Any) -> object:
    aval = getattr(leaf, "aval", None)
    if aval is not None:
        return aval
    return (np.shape(leaf), leaf.dtype) if hasattr(leaf, "dtype") else type(leaf)


def _token(leaf: Any) -> object:
    """Return what is equal for two leaves that are the same constant."""
    if isinstance(leaf, np.ndarray | np.generic) and not leaf.dtype.hasobject:
        return hashlib.blake2b(leaf.tobytes()).digest()
    if isinstance(leaf, bool | int | float | complex):
        return repr(leaf)  # tells -0.0 from 0.0, and NaN is itself
    try:
        hash(leaf)
    except TypeError:
        return _Itself(leaf)
    return leaf


class _Itself:
    """A leaf that is the same as no other; held, so that its id is not used again."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, leaf: object) -> None:
        self._leaf = leaf

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other._leaf is self._leaf
