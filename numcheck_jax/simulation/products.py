# SPDX-License-Identifier: Apache-2.0
"""Sums of products: their factors rounded, their running sum kept narrow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import jax.numpy as jnp
from jax import lax

from numcheck.formats import BlockFormat
from numcheck_jax.simulation.convolution import convolved
from numcheck_jax.simulation.rounding import round_to
from numcheck_jax.simulation.sums import accumulated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.simulation import Arithmetic, Rounding

__all__ = ["PRODUCTS", "bound", "computed"]

PRODUCTS: Final = frozenset({"dot_general", "conv_general_dilated"})
Side = Literal["left", "right"]


def bound(primitive: Any, values: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Bind a primitive and return all its outputs."""
    keywords = primitive.get_bind_params(params)
    # Before jax 0.9 the functions among the parameters came as a list of their own.
    functions, keywords = keywords if isinstance(keywords, tuple) else ((), keywords)
    found = primitive.bind(*functions, *values, **keywords)
    return list(found) if primitive.multiple_results else [found]


def computed(
    primitive: Any,
    values: Sequence[Any],
    params: dict[str, Any],
    arithmetic: Arithmetic,
    *,
    is_backward: bool,
) -> list[Any]:
    """Return what a product gives when a device multiplies as `arithmetic` says.

    Args:
        primitive: `dot_general` or a convolution.
        values: its operands.
        params: its parameters.
        arithmetic: how the device computes it.
        is_backward: whether it belongs to a backward pass. Its left factor is then a
            gradient, since that is how products are transposed.
    """
    dtype = params.get("preferred_element_type") or jnp.result_type(*values)
    if primitive.name == "conv_general_dilated":
        numbers = params["dimension_numbers"]
        axes = ((numbers.lhs_spec[1],), (numbers.rhs_spec[1],))
        batches: tuple[Sequence[int], Sequence[int]] = ((), ())
    else:
        axes, batches = params["dimension_numbers"]
    left = _role(arithmetic, "left", is_gradient=is_backward)
    # A layer's product and its gradient for the input sum over the left factor's last
    # axis; then the right factor is the weight. The weight's own gradient sums over
    # all axes but the last, and neither factor is one.
    is_weighed = not batches[1] and values[0].ndim - 1 in axes[0]
    is_weighed |= primitive.name == "conv_general_dilated"
    side: Side = "right" if is_weighed else "left"
    right = _role(arithmetic, side, is_gradient=False)
    factors = [
        _rounded(values[0], left, axes[0], batches[0]),
        _rounded(values[1], right, axes[1], batches[1]),
    ]
    if arithmetic.accumulator is not None:
        if primitive.name == "dot_general":
            total = _summed(factors, _Axes(axes, batches), arithmetic)
        else:
            total = convolved(factors[0], factors[1], params, arithmetic)
        return [lax.convert_element_type(total, dtype)]
    if all(f.dtype == v.dtype for f, v in zip(factors, values, strict=True)):
        return bound(primitive, factors, params)
    wide: dict[str, Any] = {"preferred_element_type": jnp.dtype(jnp.float32)}
    if isinstance(params.get("precision"), lax.DotAlgorithm | lax.DotAlgorithmPreset):
        wide["precision"] = None
    factors = [lax.convert_element_type(f, jnp.float32) for f in factors]
    found = bound(primitive, factors, {**params, **wide})
    return [lax.convert_element_type(found[0], dtype)]


def _role(arithmetic: Arithmetic, side: Side, *, is_gradient: bool) -> Rounding | None:
    if is_gradient and arithmetic.gradient is not None:
        return arithmetic.gradient
    return arithmetic.factor(side)


def _rounded(
    factor: Any, rounding: Rounding | None, axes: Sequence[int], batch: Sequence[int]
) -> Any:
    """Return a factor as float32, rounded with blocks along what is summed over."""
    if rounding is None:
        return factor
    wide = lax.convert_element_type(factor, jnp.float32)
    target = rounding.target
    block = target.block if isinstance(target, BlockFormat) else "tensor"
    is_shared, is_tiled = block != "tensor", isinstance(block, tuple)
    if not is_shared or (len(axes) == 1 and not is_tiled):
        return round_to(wide, rounding, axes[0] if axes else -1)
    order = _order(wide.ndim, axes, batch)
    moved = jnp.transpose(wide, order)
    rows = math.prod(moved.shape[len(batch) : wide.ndim - len(axes)])
    matrix = moved.reshape(*moved.shape[: len(batch)], rows, -1)
    found = round_to(matrix, rounding, -1).reshape(moved.shape)
    return jnp.transpose(found, [order.index(i) for i in range(wide.ndim)])


def _order(ndim: int, axes: Sequence[int], batch: Sequence[int]) -> list[int]:
    """Return axes in the order: batch, free, summed over."""
    free = [i for i in range(ndim) if i not in axes and i not in batch]
    return [*batch, *free, *axes]


class _Axes(NamedTuple):
    """Axes of both factors of a product that are summed over, and those in step."""

    summed: tuple[Sequence[int], Sequence[int]]
    batch: tuple[Sequence[int], Sequence[int]]


def _summed(factors: Sequence[Any], axes: _Axes, arithmetic: Arithmetic) -> Any:
    """Return the product with a running sum in the accumulator's format."""
    left, right = (
        _matrix(f, s, b)
        for f, s, b in zip(factors, axes.summed, axes.batch, strict=True)
    )
    free = [
        [f.shape[i] for i in _order(f.ndim, s, b)[len(b) : f.ndim - len(s)]]
        for f, s, b in zip(factors, axes.summed, axes.batch, strict=True)
    ]
    outer = [factors[0].shape[i] for i in axes.batch[0]]
    total = accumulated(left, right, arithmetic)
    return total.reshape(*outer, *free[0], *free[1])


def _matrix(factor: Any, axes: Sequence[int], batch: Sequence[int]) -> Any:
    """Return a factor as (batch, row, summed over)."""
    moved = jnp.transpose(factor, _order(factor.ndim, axes, batch))
    outer = math.prod(moved.shape[: len(batch)])
    depth = math.prod(factor.shape[i] for i in axes)
    return lax.convert_element_type(moved.reshape(outer, -1, depth), jnp.float32)
