# SPDX-License-Identifier: Apache-2.0
"""The generators of Python and NumPy, for modules that draw from them.

Reading their states costs more than all the rest that a watched call is asked for, and
few modules draw from them. So a few calls are compared before and after, one more now
and then, and only what a module draws from is kept at each of its calls.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np

__all__ = ["HostRandom", "HostState"]

_LEARNING = 3
"""Calls that are compared one after another, from the first."""
_NOW_AND_THEN = 128


class HostState(NamedTuple):
    """State of the generators behind `random` and `numpy.random`."""

    python: Any
    numpy: Any

    @classmethod
    def now(cls) -> HostState:
        """Return the present state."""
        # As a dictionary: a tuple can state one kind of generator alone.
        drawn_from = np.random.get_state(legacy=False)  # noqa: NPY002 - the user's
        return cls(random.getstate(), drawn_from)

    def restore(self) -> None:
        """Put the generators back into this state."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002 - the user's

    def is_like(self, other: HostState) -> bool:
        """Whether nothing was drawn between the two."""
        return self.python == other.python and _are_equal(self.numpy, other.numpy)


class HostRandom:
    """Takes the state before a call of a module that draws from it.

    Example:
        >>> host = HostRandom()
        >>> before = host.before()
        >>> drawn = random.random()
        >>> host.after(before) is before
        True
        >>> host.after(host.before()) is None
        True
    """

    def __init__(self) -> None:
        self._calls = 0
        self._draws = False

    def before(self) -> HostState | None:
        """Return the state before a call, where it has to be known."""
        self._calls += 1
        is_due = self._calls <= _LEARNING or self._calls % _NOW_AND_THEN == 0
        return HostState.now() if self._draws or is_due else None

    def after(self, taken: HostState | None) -> HostState | None:
        """Return what of it is worth keeping, after the call."""
        if taken is None or taken.is_like(HostState.now()):
            return None
        self._draws = True
        return taken


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two states, nested dictionaries of numbers and arrays, say the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _are_equal(one[name], other[name]) for name in one
        )
    return bool(np.array_equal(one, other))
