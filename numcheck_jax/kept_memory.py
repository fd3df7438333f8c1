# SPDX-License-Identifier: Apache-2.0
"""How much memory is kept for a replay that nobody else keeps any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import jax

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["is_too_much", "kept_alone", "peak_bytes"]

_SHARE: Final = 0.02
"""Of the peak; what a step replaced is let go early where it takes more."""


def is_too_much(kept: Iterable[Any], in_use: Iterable[Any]) -> bool:
    """Whether values held for a replay take more than their share of the peak.

    A device that does not say what its peak was, a CPU, sets no limit.

    Args:
        kept: the values held.
        in_use: values that the program holds anyway.
    """
    peak = peak_bytes()
    return peak is not None and kept_alone(kept, in_use) > _SHARE * peak


def kept_alone(kept: Iterable[Any], in_use: Iterable[Any]) -> int:
    """Return the bytes of the arrays that only the first of two groups holds.

    >>> import jax.numpy as jnp
    >>> old, new = jnp.ones(4), jnp.ones(4)
    >>> kept_alone([old, new, 3], [new])
    16
    """
    shared = {id(x) for x in in_use}
    own = {id(x): x for x in kept if isinstance(x, jax.Array) and id(x) not in shared}
    return sum(int(x.nbytes) for x in own.values() if not x.is_deleted())


def peak_bytes() -> int | None:
    """Return the most memory that was in use on a device here; None when not told."""
    stats = jax.local_devices()[0].memory_stats()
    peak = (stats or {}).get("peak_bytes_in_use")
    return None if peak is None else int(peak)
