# SPDX-License-Identifier: Apache-2.0
"""Sums whose running total is kept in a narrow format."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from numcheck_jax.simulation.rounding import round_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.simulation import Arithmetic

__all__ = ["accumulated", "total_over"]


def accumulated(left: Any, right: Any, arithmetic: Arithmetic) -> Any:
    """Return a product as float32, its running sum in the accumulator's format.

    Args:
        left: (batch, row, k).
        right: (batch, column, k).
        arithmetic: how the device adds.

    Returns:
        (batch, row, column).
    """
    accumulator = arithmetic.accumulator
    assert accumulator is not None  # noqa: S101 - the caller asked
    chunk = arithmetic.chunk
    with jax.enable_x64(True):  # noqa: FBT003 - JAX's own signature
        left, right = (lax.convert_element_type(x, jnp.float64) for x in (left, right))
        shape = (left.shape[0], left.shape[1], right.shape[1])
        running = jnp.zeros(shape, jnp.float64)
        for start in range(0, left.shape[2], chunk):
            part = jnp.einsum(
                "bmk,bnk->bmn",
                left[:, :, start : start + chunk],
                right[:, :, start : start + chunk],
                precision=lax.Precision.HIGHEST,
            )
            running = round_sum(running + part, accumulator)
        return lax.convert_element_type(running, jnp.float32)


def total_over(x: Any, axes: Sequence[int], arithmetic: Arithmetic) -> Any:
    """Return the sum over some axes as float32, added up in a tree.

    A device adds many numbers at once: `chunk` of them, at least two, give a partial
    sum, which is rounded, and partial sums are added in the same way.

    Example:
        >>> from numcheck.simulation.loading import parse
        >>> fp16 = parse("accumulator = 'float16'", "mine").arithmetic("sum", "float16")
        >>> total_over(jnp.full((8,), 30000.0), [0], fp16).item()
        inf
    """
    accumulator = arithmetic.accumulator
    assert accumulator is not None  # noqa: S101 - the caller asked
    kept = [i for i in range(x.ndim) if i not in axes]
    outer = [x.shape[i] for i in kept]
    many = max(arithmetic.chunk, 2)
    with jax.enable_x64(True):  # noqa: FBT003 - JAX's own signature
        wide = lax.convert_element_type(x, jnp.float64)
        count = math.prod(x.shape[i] for i in axes)
        parts = jnp.transpose(wide, (*kept, *axes)).reshape(*outer, count)
        while parts.shape[-1] > 1:
            missing = -parts.shape[-1] % many
            padded = jnp.pad(parts, [(0, 0)] * len(outer) + [(0, missing)])
            whole = padded.reshape(*outer, -1, many)
            parts = round_sum(whole.sum(-1), accumulator)
        total = round_sum(parts.sum(-1), accumulator)
        return lax.convert_element_type(total, jnp.float32)
