# SPDX-License-Identifier: Apache-2.0
"""How much memory is kept for a replay that nobody else keeps any more."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import jax

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["is_too_much", "kept_alone", "peak_bytes"]

_SHARE: Final = 0.02
"""Of the peak; what a step replaced is let go early where it takes more."""


def is_too_much(kept: Iterable[Any], in_use: Iterable[Any]) -> bool:
    """Whether values held for a replay take more than their share of a device's peak.

    A device that does not say what its peak was, a CPU, sets no limit.

    Args:
        kept: the values held.
        in_use: values that the program holds anyway.
    """
    told = ((device, peak_bytes(device)) for device in jax.local_devices())
    peaks = {device: peak for device, peak in told if peak is not None}
    held = kept_alone(kept, in_use) if peaks else {}
    return any(held.get(device, 0) > _SHARE * peak for device, peak in peaks.items())


def kept_alone(kept: Iterable[Any], in_use: Iterable[Any]) -> Mapping[jax.Device, int]:
    """Return what only the first of two groups holds, in bytes on each device here.

    >>> import jax.numpy as jnp
    >>> old, new = jnp.ones(4), jnp.ones(4)
    >>> list(kept_alone([old, new, 3], [new]).values())
    [16]
    """
    shared = {id(x) for x in in_use}
    own = {id(x): x for x in kept if isinstance(x, jax.Array) and id(x) not in shared}
    held: Counter[jax.Device] = Counter()
    for x in own.values():
        if not x.is_deleted() and x.size:
            part = math.prod(x.sharding.shard_shape(x.shape))
            for device in x.sharding.addressable_devices:
                held[device] += x.nbytes * part // x.size
    return held


def peak_bytes(device: jax.Device) -> int | None:
    """Return the most memory that was in use on a device; None when not told."""
    peak = (device.memory_stats() or {}).get("peak_bytes_in_use")
    return None if peak is None else int(peak)
