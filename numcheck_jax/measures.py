# SPDX-License-Identifier: Apache-2.0
"""Measures of a pytree that run inside a jitted step, in the shape optax asks for.

Each takes updates (or parameters, activations: any pytree) and returns one number, as
`optax.snapshot` and `optax.monitor` want them. NaN and Inf are found element by element
and left out of the maximum: a float maximum loses NaN on some backends.

    optax.chain(
        optax.snapshot("headroom", measures.headroom),
        optax.adam(1e-3),
    )
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from numcheck import formats

__all__ = ["flushed", "headroom", "non_finite"]


def headroom(tree: Any, fmt: object = None) -> jax.Array:
    """Return the bits left before the tightest array of a pytree overflows.

    Args:
        tree: arrays; those that are not floating-point are passed over.
        fmt: whose limit counts; by default each array's own.

    Returns:
        A float32 scalar: least log2(largest finite number / amax). −Inf when an
        element is NaN or Inf, +Inf when there is nothing but zeros.

    Example:
        >>> headroom({"w": jnp.array([16376.0, 1.0], jnp.float16)})
        Array(2., dtype=float32)
    """
    least: jax.Array = jnp.asarray(math.inf, jnp.float32)
    for leaf in _floats(tree):
        largest = formats.get(leaf.dtype if fmt is None else fmt).max
        bits = math.log2(largest) - jnp.log2(_amax(leaf)).astype(jnp.float32)
        least = jnp.minimum(least, jnp.where(_broken(leaf).any(), -math.inf, bits))
    return least


def non_finite(tree: Any) -> jax.Array:
    """Return how many elements of a pytree are NaN or infinite, as int32.

    Example:
        >>> non_finite([jnp.array([1.0, jnp.nan]), jnp.array([jnp.inf])])
        Array(2, dtype=int32)
    """
    counted: jax.Array = jnp.asarray(0, jnp.int32)
    for leaf in _floats(tree):
        counted += _broken(leaf).sum(dtype=jnp.int32)
    return counted


def flushed(tree: Any, fmt: object) -> jax.Array:
    """Return the share of non-zero elements that a format rounds to zero.

    Args:
        tree: arrays; those that are not floating-point are passed over.
        fmt: which the values are to be cast to.

    Returns:
        A float32 scalar from 0 to 1; 0 where there is nothing but zeros.

    Example:
        >>> flushed(jnp.array([1.0, 1e-9, 0.0]), "float16")
        Array(0.5, dtype=float32)
    """
    half = formats.get(fmt).smallest_subnormal / 2
    lost: jax.Array = jnp.asarray(0, jnp.float32)
    known: jax.Array = jnp.asarray(0, jnp.float32)
    for leaf in _floats(tree):
        size = jnp.abs(_wide(leaf))
        known += (size > 0).sum(dtype=jnp.float32)
        lost += ((size > 0) & (size <= half)).sum(dtype=jnp.float32)
    return lost / jnp.maximum(known, 1)


def _floats(tree: Any) -> list[jax.Array]:
    """Return the floating-point arrays of a pytree."""
    leaves = (jnp.asarray(leaf) for leaf in jax.tree.leaves(tree))
    return [x for x in leaves if jnp.issubdtype(x.dtype, jnp.floating)]


def _wide(x: jax.Array) -> jax.Array:
    """Return a narrow array as float32, which holds it exactly."""
    return x.astype(jnp.float32) if x.dtype.itemsize < 4 else x


def _broken(x: jax.Array) -> jax.Array:
    return ~jnp.isfinite(_wide(x))


def _amax(x: jax.Array) -> jax.Array:
    finite = jnp.where(_broken(x), 0, jnp.abs(_wide(x)))
    return jnp.max(finite, initial=0)
