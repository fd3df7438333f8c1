# SPDX-License-Identifier: Apache-2.0
"""Which argument leaf a returned leaf continues: new parameters, the old ones."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from numcheck_jax.naming import plain_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck_jax.capture import Call
    from numcheck_jax.results import Key, Result

__all__ = ["candidates"]


def candidates(
    call: Call, result: Result, leaves: Mapping[Key, Any], head: int | None = None
) -> dict[Key, tuple[int, ...]]:
    """Return, for each value handed back, argument leaves it could continue.

    A candidate has the same shape and dtype. Those sharing the longest end of their
    path come first, then those standing at the same place of the argument list.
    Gradients stand in a tree of their own; below its `head` they are in the order of
    the arguments.

    Args:
        call: the call.
        result: what it handed back.
        leaves: the values to pair, or anything with their shape and dtype.
        head: number of leading keys that all of them share and no argument does.
    """
    kinds: dict[Any, list[int]] = {}
    for i, leaf in enumerate(call.leaves):
        if (kind := _kind(leaf)) is not None:
            kinds.setdefault(kind, []).append(i)
    inside = [plain_path(p[1:]) for p in call.paths]
    found: dict[Key, tuple[int, ...]] = {}
    for key, leaf in leaves.items():
        if key.kind == "after":
            found[key] = (key.position,)
            continue
        path = plain_path(result.paths[key.position])
        rank = functools.partial(_rank, path[head or 0 :], inside, head is None)
        found[key] = tuple(sorted(kinds.get(_kind(leaf), []), key=rank))
    return found


def _kind(leaf: Any) -> tuple[Any, ...] | None:
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        return None
    return tuple(leaf.shape), leaf.dtype


def _rank(
    path: tuple[Any, ...],
    inside: Sequence[tuple[Any, ...]],
    by_place: bool,  # noqa: FBT001 - bound once, above
    position: int,
) -> tuple[int, int, bool, int]:
    leaf = inside[position]
    shared = 0
    for mine, theirs in zip(reversed(path), reversed(leaf), strict=False):
        if mine != theirs:
            break
        shared += 1
    elsewhere = by_place and path[:1] != leaf[:1]
    return -shared, abs(len(path) - len(leaf)) if by_place else 0, elsewhere, position
