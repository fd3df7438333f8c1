# SPDX-License-Identifier: Apache-2.0
"""Where several processes hold an array together: this process's share of it.

A process cannot run such a step again alone, and must not wait for others that may
never come. Where the processes split the batch, each runs the step again on its own
samples, with no word to the others; the one that holds the fault finds it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from numcheck_jax.results import Result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck_jax.capture import Call

__all__ = ["call_share", "is_shared", "own_rank", "result_share", "share"]


def own_rank() -> int:
    """Return this process's index, without waking a backend that still sleeps."""
    return jax.process_index() if jax.distributed.is_initialized() else 0


def is_shared(leaves: Iterable[Any]) -> bool:
    """Whether other processes hold a part of any of these values.

    >>> is_shared([jnp.ones(3), 1.0])
    False
    """
    return any(_spans_processes(leaf) for leaf in leaves)


def call_share(call: Call) -> Call:
    """Return a call of the same function on this process's share of the arguments."""
    if not is_shared(call.leaves):
        return call
    leaves = tuple(share(leaf) for leaf in call.leaves)
    args, kwargs = jax.tree.unflatten(call.treedef, leaves)
    return dataclasses.replace(
        call, args=args, kwargs=kwargs, given=leaves, leaves=leaves
    )


def result_share(result: Result) -> Result:
    """Return this process's share of what a call handed back."""
    leaves = tuple(share(leaf) for leaf in result.leaves)
    after = {i: share(leaf) for i, leaf in result.after.items()}
    return Result(leaves, result.treedef, after)


def share(leaf: Any) -> Any:
    """Return the part of an array that this process holds, on one of its devices.

    Anything that it holds alone, and what was donated, comes back as it is. Parts that
    do not lie side by side come back as one row, with which no step can be run.
    """
    if not _spans_processes(leaf) or leaf.is_deleted():
        return leaf
    shards = leaf.addressable_shards
    if leaf.is_fully_replicated or len({_corner(s, leaf) for s in shards}) == 1:
        return leaf.addressable_data(0)
    return jnp.asarray(_assembled(leaf))


def _assembled(leaf: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the smallest block around the parts that are here."""
    parts = {_corner(s, leaf): np.asarray(s.data) for s in leaf.addressable_shards}
    low = np.min(list(parts), axis=0)
    high = np.max([np.add(at, part.shape) for at, part in parts.items()], axis=0)
    block = np.empty(high - low, leaf.dtype)
    if sum(part.size for part in parts.values()) != block.size:
        return np.concatenate([part.ravel() for part in parts.values()])
    for at, part in parts.items():
        start = np.subtract(at, low)
        ends = np.add(start, part.shape)
        where = tuple(slice(a, b) for a, b in zip(start, ends, strict=True))
        block[where] = part
    return block


def _corner(shard: Any, leaf: Any) -> tuple[int, ...]:
    """Return where a part begins in the whole array."""
    bounds = zip(shard.index, leaf.shape, strict=True)
    return tuple(part.indices(size)[0] for part, size in bounds)


def _spans_processes(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and not (
        isinstance(leaf, jax.core.Tracer) or leaf.is_fully_addressable
    )
