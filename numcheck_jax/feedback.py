# SPDX-License-Identifier: Apache-2.0
"""Which arguments of a step were what the step before handed back."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import jax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck_jax.results import Result

__all__ = ["Feedback"]


class Feedback:
    """Watches calls until one is given the very arrays that the last one handed back.

    An output of its argument's shape alone may be anything. Copies made in between,
    as by `jax.device_put`, are not seen.

    Attributes:
        positions: the argument leaves that were fed back.
    """

    def __init__(self) -> None:
        """Start before the first call."""
        self.positions: frozenset[int] = frozenset()
        self._handed_back: list[weakref.ref[jax.Array]] = []
        self._replaced: frozenset[int] = frozenset()

    def take(self, given: Sequence[Any]) -> None:
        """Look at the argument leaves of a call that is about to run."""
        if self.positions:
            return
        handed = {id(x) for ref in self._handed_back if (x := ref()) is not None}
        taken = frozenset(i for i, x in enumerate(given) if id(x) in handed)
        self.positions = taken | self._replaced
        self._handed_back = []

    def give(self, result: Result) -> None:
        """Remember what a call handed back, by references that keep nothing alive.

        What it replaced inside its arguments, the next call finds there.
        """
        if not self.positions:
            arrays = (x for x in result.leaves if isinstance(x, jax.Array))
            self._handed_back = [weakref.ref(x) for x in arrays]
            self._replaced = frozenset(result.after)
