# SPDX-License-Identifier: Apache-2.0
"""Small states that moved and then stand still: read at a few steps of a long run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LARGEST", "StillWatch"]

LARGEST: Final = 1 << 16
"""Elements of a state that is still read; counters and running averages are small."""
_FIRST: Final = 16
_READINGS: Final = 2


class StillWatch:
    """Says when a low-precision state that moved before did not move at one step.

    The states are read at two steps in a row, at numbers that double from 16 on: what
    that costs does not grow with the run. A state that stands still may have arrived;
    whether something was lost is for an audit to find out.

    Example:
        >>> still, asked = StillWatch(), []
        >>> for step in range(100):
        ...     if still.wants_values(step):
        ...         count = min(step, 50)
        ...         asked += [step] * still.take({"count": bytes([count])})
        >>> asked
        [65]
    """

    def __init__(self) -> None:
        """Begin without a reading."""
        self._earlier: Mapping[str, bytes] = {}
        self._latest: Mapping[str, bytes] = {}
        self._next = _FIRST
        self._taken = 0

    def wants_values(self, step: int) -> bool:
        """Whether the states are to be read at this step."""
        return step >= self._next

    def take(self, values: Mapping[str, bytes]) -> bool:
        """Take the states as they are now; return whether the step needs an audit.

        Args:
            values: the bits of each state, by name.
        """
        self._taken += 1
        if self._taken < _READINGS:
            self._earlier, self._latest = self._latest, values
            return False
        before, earlier = self._latest, self._earlier
        self._taken, self._next = 0, 2 * self._next
        return any(
            bits == before.get(name) and bits != earlier.get(name, bits)
            for name, bits in values.items()
        )
