# SPDX-License-Identifier: Apache-2.0
"""Copies of what a step consumes, where they cost next to nothing."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import jax
import jax.numpy as jnp

from numcheck_jax.capture import is_deleted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck_jax.capture import Call

__all__ = ["SmallDonations"]

_LEAVES: Final = 32
_BYTES: Final = 1 << 20
_copies = jax.jit(lambda leaves: [jnp.copy(x) for x in leaves])


class SmallDonations:
    """Learns from the first call what a function consumes; copies it from then on.

    Of many or large buffers nothing is kept: there a copy would cost the user's step
    what donation saves it.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._consumed: tuple[int, ...] = ()
        self._structure: Any = None

    def learn(self, call: Call) -> None:
        """Learn from a call that has run which of its leaves it consumed."""
        if self._structure is None:
            self._structure = call.treedef
            gone = (i for i, leaf in enumerate(call.given) if is_deleted(leaf))
            self._consumed = tuple(gone)

    def spared(self, call: Call) -> Call:
        """Return the call with copies of what its run will consume, where small."""
        at = self._consumed
        if not at or len(at) > _LEAVES or call.treedef != self._structure:
            return call
        given = [call.given[i] for i in at]
        if not _are_on_one_device(given) or sum(x.nbytes for x in given) > _BYTES:
            return call
        leaves = list(call.leaves)
        for i, copied in zip(at, _copies(given), strict=True):
            leaves[i] = copied
        return dataclasses.replace(call, leaves=tuple(leaves))


def _are_on_one_device(leaves: Sequence[Any]) -> bool:
    """Whether leaves are arrays of this process, not yet consumed, on one device."""
    devices: set[jax.Device] = set()
    for leaf in leaves:
        if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
            return False
        if leaf.is_deleted() or not leaf.is_fully_addressable:
            return False
        devices |= leaf.sharding.device_set
    return len(devices) == 1
