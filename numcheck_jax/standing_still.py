# SPDX-License-Identifier: Apache-2.0
"""States in few bits that moved and then stand still, told by their norms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import jax
import jax.numpy as jnp

from numcheck.diagnose.still_watch import LARGEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck_jax.results import Key, Result
    from numcheck_jax.roles import Roles

__all__ = ["StandingStill"]

_APART: Final = 16
_COARSE: Final = 4  # bytes


class StandingStill:
    """Follows what the flag holds of each state anyway, and says when to look closer.

    A state that stands still may have arrived; whether something was lost is for an
    audit to find out. The steps between two audits double.
    """

    def __init__(self) -> None:
        """Begin without a value."""
        self._held: dict[Key, tuple[float, float]] = {}
        self._next = 0

    def take(
        self, step: int, result: Result, held: Mapping[Key, float], roles: Roles | None
    ) -> bool:
        """Take what a healthy step gave; return whether it needs an audit.

        Args:
            step: the step.
            result: what it handed back.
            held: value of each scalar, norm of each other float value.
            roles: what its values are to the user; nothing is said before that is
                known.
        """
        if roles is None:
            return False
        stopped = False
        for key, value in result.items():
            if roles.kept.get(key) != "state" or not _is_small_and_coarse(value):
                continue
            if key in held:
                stopped |= self._stops(key, held[key])
        if not stopped or step < self._next:
            return False
        self._next = 2 * step + _APART
        return True

    def _stops(self, key: Key, now: float) -> bool:
        """Whether a state moved until the last step and did not at this one."""
        earlier, before = self._held.get(key, (now, now))
        self._held[key] = before, now
        return now == before != earlier


def _is_small_and_coarse(value: Any) -> bool:
    if not isinstance(value, jax.Array) or value.size > LARGEST:
        return False
    coarse = value.dtype.itemsize < _COARSE
    return coarse and bool(jnp.issubdtype(value.dtype, jnp.floating))
