# SPDX-License-Identifier: Apache-2.0
"""Convolutions as the products they are, so that their sums can be kept narrow.

Every output is a product of a patch of the input with the weights; the sum runs through
the patch channel by channel. Gradients are convolutions of the same form.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import lax

from numcheck_jax.simulation.sums import accumulated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.simulation import Arithmetic

__all__ = ["convolved"]


def convolved(
    left: Any, right: Any, params: Mapping[str, Any], arithmetic: Arithmetic
) -> Any:
    """Return a convolution with its sums in the accumulator's format, as float32.

    Args:
        left: the input.
        right: the weights.
        params: those of `conv_general_dilated`.
        arithmetic: how the device adds.
    """
    numbers = params["dimension_numbers"]
    x = jnp.transpose(left, numbers.lhs_spec)
    weight = jnp.transpose(right, numbers.rhs_spec)
    groups = params["feature_group_count"]
    if params["batch_group_count"] > 1:
        groups = params["batch_group_count"]
        x = _beside_each_other(x, groups)
    x = _spread(x, params["padding"], params["lhs_dilation"])
    kernel = weight.shape[2:]
    x, out = _patches(x, kernel, params["window_strides"], params["rhs_dilation"])
    depth = x.shape[1] * math.prod(kernel) // groups
    rows = _grouped(x, groups, len(kernel)).reshape(groups, -1, depth)
    columns = weight.reshape(groups, weight.shape[0] // groups, depth)
    total = accumulated(rows, columns, arithmetic)
    total = total.reshape(groups, x.shape[0], math.prod(out), -1)
    whole = jnp.transpose(total, (1, 0, 3, 2)).reshape(x.shape[0], -1, *out)
    spec = numbers.out_spec
    return jnp.transpose(whole, [spec.index(i) for i in range(len(spec))])


def _beside_each_other(x: Any, groups: int) -> Any:
    """Return an input whose groups lie along the batch with groups of channels."""
    split = x.reshape(groups, x.shape[0] // groups, *x.shape[1:])
    moved = jnp.moveaxis(split, 0, 1)
    return moved.reshape(moved.shape[0], -1, *x.shape[2:])


def _spread(x: Any, padding: Any, dilation: Any) -> Any:
    """Return `x` with zeros between neighbours and around it."""
    sides = [
        (low, high, d - 1) for (low, high), d in zip(padding, dilation, strict=True)
    ]
    return lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *sides])


def _patches(
    x: Any, kernel: Any, strides: Any, dilation: Any
) -> tuple[Any, tuple[int, ...]]:
    """Return (sample, channel, place, offset, place, offset…) and the places' sizes."""
    out = []
    for i, (k, s, d) in enumerate(zip(kernel, strides, dilation, strict=True)):
        axis = 2 + 2 * i
        places = (x.shape[axis] - d * (k - 1) - 1) // s + 1
        index = s * jnp.arange(places)[:, None] + d * jnp.arange(k)
        x = jnp.take(x, index, axis=axis)
        out.append(places)
    return x, tuple(out)


def _grouped(x: Any, groups: int, axes: int) -> Any:
    """Return patches as (group, sample, places…, channel, offsets…)."""
    split = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    places = [3 + 2 * i for i in range(axes)]
    return jnp.transpose(split, (1, 0, *places, 2, *(p + 1 for p in places)))
