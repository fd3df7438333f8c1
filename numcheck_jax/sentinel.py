# SPDX-License-Identifier: Apache-2.0
"""The cheap check: one small program over what a step hands back.

It reduces the bit patterns, since a float maximum drops NaN on some backends, and
packs one word a value, so that a step costs one dispatch and one transfer.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.typing import ArrayLike

    Words = np.ndarray[Any, np.dtype[np.uint32]]

__all__ = [
    "INFINITE",
    "Flag",
    "is_bad",
    "is_watchable",
    "launch",
    "signed_word",
    "values",
    "word_of",
]

INFINITE = 0x7F800000
"""The float32 pattern of infinity; a word at or above it is not finite."""

_BITS = {2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}


def is_watchable(leaf: object) -> bool:
    """Whether a value can hold a NaN or Inf: a float or complex array or number.

    >>> is_watchable(1.5), is_watchable(3), is_watchable("text")
    (True, False, False)
    """
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not hasattr(leaf, "shape"):
        return isinstance(leaf, float | complex)
    return _is_inexact(dtype)


@functools.cache
def _is_inexact(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.inexact))


def word_of(x: ArrayLike) -> jax.Array:
    """Return the largest magnitude in `x` as a float32 bit pattern, uint32.

    NaN gives a pattern above `INFINITE`, infinity that pattern or above, an empty
    array 0. float64 is cut to float32's range first; finite stays finite.

    >>> bool(word_of(jnp.array([1.0, jnp.nan])) > INFINITE)
    True
    """
    x = jnp.asarray(x)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return jnp.maximum(word_of(x.real), word_of(x.imag))
    if x.size == 0:
        return jnp.zeros((), jnp.uint32)
    bits = _BITS.get(x.dtype.itemsize)
    if bits is None or x.dtype == jnp.float8_e5m2:
        return _narrow_word(x)
    pattern = lax.bitcast_convert_type(x, bits) & bits(
        (1 << (8 * x.dtype.itemsize - 1)) - 1
    )
    top = lax.reduce_max(pattern, tuple(range(x.ndim)))
    return _as_float32_pattern(top, x.dtype)


def _narrow_word(x: jax.Array) -> jax.Array:
    """Return the word of an 8-bit or narrower array, whose specials differ by type."""
    wide = jnp.abs(x.astype(jnp.float32))
    pattern = lax.bitcast_convert_type(wide, jnp.uint32)
    top: jax.Array = lax.reduce_max(pattern, tuple(range(x.ndim)))
    return top


def _as_float32_pattern(top: jax.Array, dtype: Any) -> jax.Array:
    """Widen or cut the pattern of a magnitude to that of a float32."""
    if dtype == jnp.bfloat16:
        return top.astype(jnp.uint32) << 16
    if dtype == jnp.float16:
        half = lax.bitcast_convert_type(top, jnp.float16)
        return lax.bitcast_convert_type(half.astype(jnp.float32), jnp.uint32)
    if dtype == jnp.float64:
        infinity = jnp.uint64(0x7FF0000000000000)
        huge = jnp.uint32(INFINITE) + (top > infinity).astype(jnp.uint32)
        value = lax.bitcast_convert_type(top, jnp.float64)
        largest = jnp.float64(np.finfo(np.float32).max)
        cut = jnp.minimum(value, largest).astype(jnp.float32)
        finite = lax.bitcast_convert_type(cut, jnp.uint32)
        return jnp.where(top >= infinity, huge, finite)
    return top


@jax.jit
def _words(leaves: list[jax.Array]) -> jax.Array:
    return jnp.stack([signed_word(x) for x in leaves])


def signed_word(x: jax.Array) -> jax.Array:
    """Return the word of `x`, with its sign in the top bit where it is one number."""
    word = word_of(x)
    if x.ndim or jnp.issubdtype(x.dtype, jnp.complexfloating):
        return word
    sign = (x < 0).astype(jnp.uint32) << 31
    return word | sign


def _host_word(leaf: Any) -> int:
    """Return the word of a value that lives on the host, in its own precision."""
    x = np.atleast_1d(np.asarray(leaf))
    if x.dtype.kind == "c":
        x = np.concatenate([x.real, x.imag])
    x = x.astype(np.float64)
    if not x.size:
        return 0
    if not np.isfinite(x).all():
        return INFINITE + int(np.isnan(x).any())
    top = np.float32(min(np.abs(x).max(), np.finfo(np.float32).max))
    sign = int(x[0] < 0) << 31 if np.ndim(leaf) == 0 else 0
    return int(top.view(np.uint32)) | sign


@dataclasses.dataclass(frozen=True, slots=True)
class Flag:
    """The words of one step, on their way from the devices.

    Attributes:
        parts: positions among the leaves and the packed words of these leaves, one
            pair for each set of devices.
        count: number of leaves.
    """

    parts: tuple[tuple[tuple[int, ...], Any], ...]
    count: int

    @property
    def is_ready(self) -> bool:
        """Whether reading would not wait."""
        return all(_has_arrived(w) for _, w in self.parts)

    def read(self) -> Words:
        """Return one word a leaf, uint32; waits for the step."""
        words = np.zeros(self.count, np.uint32)
        for positions, packed in self.parts:
            words[list(positions)] = np.asarray(packed)
        return words


def _has_arrived(packed: Any) -> bool:
    return bool(getattr(packed, "is_ready", lambda: True)())


def is_bad(words: Words) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which of the leaves hold a NaN or an Inf.

    >>> is_bad(launch([jnp.ones(3), np.float32("-inf")]).read())
    array([False,  True])
    """
    return (words & 0x7FFFFFFF) >= INFINITE


def values(words: Words) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the value of each scalar leaf, the largest magnitude of each other.

    >>> values(launch([jnp.float32(-2.5), jnp.array([1.0, -3.0])]).read())
    array([-2.5,  3. ], dtype=float32)
    """
    return words.view(np.float32)


def launch(leaves: Sequence[Any]) -> Flag:
    """Start the check of float leaves and return without waiting."""
    groups: dict[Any, list[int]] = {}
    for i, leaf in enumerate(leaves):
        groups.setdefault(_place(leaf), []).append(i)
    parts = []
    for place, at in groups.items():
        group = [leaves[i] for i in at]
        packed = _words(group) if place else np.array([*map(_host_word, group)])
        parts.append((tuple(at), packed))
    return Flag(tuple(parts), len(leaves))


def _place(leaf: object) -> frozenset[Any]:
    """Return what leaves must share to enter one program: devices; none on the host."""
    if not isinstance(leaf, jax.Array):
        return frozenset()
    return frozenset(leaf.sharding.device_set)
