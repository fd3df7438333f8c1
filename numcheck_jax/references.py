# SPDX-License-Identifier: Apache-2.0
"""Arguments that are mutable arrays (`jax.new_ref`): what they held before a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import jax

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["held", "is_reference", "opened", "values"]

_MOST_BYTES: Final = 32 * 2**20
"""Most that is copied at every step."""


def is_reference(leaf: object) -> bool:
    """Whether a leaf is a mutable array of the user's, not one being traced."""
    # Not `isinstance`, which counts tracers and is asked of every leaf at every step.
    return issubclass(type(leaf), jax.Ref)


def values(given: Sequence[Any], leaves: Sequence[Any]) -> Sequence[Any]:
    """Return leaves with what each reference holds now in its place.

    Args:
        given: what the user passed, which tells where references are.
        leaves: the same leaves, or those of another call, traced ones included.

    >>> given = [jax.new_ref(jax.numpy.float32(2.0)), 3]
    >>> values(given, given)
    [Array(2., dtype=float32), 3]
    """
    if len(given) != len(leaves) or not any(map(is_reference, given)):
        return leaves
    pairs = zip(given, leaves, strict=True)
    return [leaf[...] if is_reference(original) else leaf for original, leaf in pairs]


def held(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Return the leaves as they are to be held for a replay.

    References too large to copy at every step stay, and make a replay impossible.
    """
    references = [leaf for leaf in leaves if is_reference(leaf)]
    if not references or sum(_bytes(r) for r in references) > _MOST_BYTES:
        return tuple(leaves)
    return tuple(values(leaves, leaves))


def opened(given: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """Return the leaves with a fresh reference where one was given.

    Arguments that are one reference stay one.

    Args:
        given: what the user passed.
        leaves: the values to start from.
    """
    known: dict[int, Any] = {}
    found = []
    for original, value in zip(given, leaves, strict=True):
        if not is_reference(original):
            found.append(value)
            continue
        if id(original) not in known:
            known[id(original)] = jax.new_ref(jax.numpy.asarray(value))
        found.append(known[id(original)])
    return found


def _bytes(reference: Any) -> int:
    return int(reference.size * reference.dtype.itemsize)
