# SPDX-License-Identifier: Apache-2.0
"""Rounding arrays as `numcheck.quantize` does, with integer arithmetic on their bits.

XLA sees elementwise arithmetic, and fuses it with what is before and after.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from numcheck.simulation.rounding import Rounding, SharedScale

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.simulation.rounding import FloatKernel

__all__ = ["round_sum", "round_to"]


def round_to(x: jax.Array, rounding: Rounding, axis: int = -1) -> jax.Array:
    """Return `x` rounded; bit for bit what `quantize` gives.

    Args:
        x: float32 array.
        rounding: what to round to.
        axis: the axis along which blocks run.

    Example:
        >>> from numcheck.simulation import Rounding
        >>> round_to(jnp.array([0.1, 3.14159]), Rounding("e4m3")).tolist()
        [0.1015625, 3.25]
    """
    if x.size == 0 or rounding.way == "none":
        return x
    found: jax.Array = _rounded(x, rounding=rounding, axis=axis % max(x.ndim, 1))
    return found


def round_sum(total: jax.Array, accumulator: Rounding) -> jax.Array:
    """Return float64 sums rounded once to an accumulator's format."""
    return _rounded_bits(total, accumulator.kernel(64))


@functools.partial(jax.jit, static_argnames=("rounding", "axis"))
def _rounded(x: jax.Array, *, rounding: Rounding, axis: int) -> jax.Array:
    return _WAYS[rounding.way](x, rounding, axis)


def _by_quantize(x: jax.Array, rounding: Rounding, axis: int) -> jax.Array:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)

    def quantized(values: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
        return rounding.quantized(np.asarray(values), axis)

    found: jax.Array = jax.pure_callback(quantized, shape, x, vmap_method="sequential")
    return found


def _by_bits(x: jax.Array, rounding: Rounding, axis: int) -> jax.Array:
    return _rounded_bits(x, rounding.kernel())


def _by_ladder(x: jax.Array, rounding: Rounding, axis: int) -> jax.Array:
    # Magnitudes are compared as integers: XLA may take small floats for zero.
    ladder = rounding.ladder()
    thresholds = ladder.thresholds.view(np.int32)
    values = jnp.asarray(ladder.values.view(np.int32))
    bits = lax.bitcast_convert_type(x, jnp.int32)
    magnitude = bits & _MAGNITUDE
    step = jnp.searchsorted(thresholds, magnitude, side="right", method="scan_unrolled")
    found = values[step]
    infinity = int(np.float32(ladder.infinity).view(np.int32))
    found = jnp.where(magnitude == _INFINITY, infinity, found)
    signed = found | (bits & ~_MAGNITUDE)
    if not ladder.has_neg_zero:
        signed = jnp.where(found == 0, 0, signed)
    signed = jnp.where(magnitude > _INFINITY, _NAN, signed)
    return lax.bitcast_convert_type(signed, jnp.float32)


def _by_power(x: jax.Array, rounding: Rounding, axis: int) -> jax.Array:
    """Round blocks that share a power of two: amax's exponent less the element's."""
    target: Any = rounding.target
    shared, kernel = SharedScale.of(target), rounding.kernel()
    blocks, restore, over = _blocked(x, shared, axis)
    magnitude = lax.bitcast_convert_type(blocks, jnp.int32) & _MAGNITUDE
    field = jnp.max(magnitude, axis=over, keepdims=True) >> kernel.stored
    scale = field - (127 + shared.element_emax)
    scale = jnp.clip(scale, shared.emin, shared.emax)
    largest = _scaled(kernel.largest, scale, kernel.stored)
    rounded = _rounded_bits(blocks, kernel, scale + kernel.lowest, largest)
    return restore(jnp.where(field == 255, jnp.nan, rounded))


def _scaled(largest: int, scale: jax.Array, stored: int) -> jax.Array:
    """Return the bits of the largest element times 2**scale, also where subnormal."""
    field = (largest >> stored) + scale
    significand = (largest & ((1 << stored) - 1)) | (1 << stored)
    small = significand >> jnp.clip(1 - field, 0, stored + 1)
    return jnp.where(field < 1, small, largest + (scale << stored))


def _by_quotient(x: jax.Array, rounding: Rounding, axis: int) -> jax.Array:
    """Round blocks whose scale is amax / largest element, in float32."""
    target: Any = rounding.target
    shared, kernel = SharedScale.of(target), rounding.kernel(64)
    single = Rounding("float32").kernel(64)
    blocks, restore, over = _blocked(x, shared, axis)
    bits = lax.bitcast_convert_type(blocks, jnp.int32)
    amax = jnp.max(bits & _MAGNITUDE, axis=over, keepdims=True)
    with jax.enable_x64(True):  # noqa: FBT003 - JAX's own signature
        scale = _rounded_bits(_divided(_widened(amax), shared.element_max), single)
        scale = jnp.where(scale == 0, target.scale.smallest_subnormal, scale)
        ratio = _divided(_widened(bits & _MAGNITUDE), scale)
        ratio = _rounded_bits(ratio, kernel)
        found = _narrowed(_rounded_bits(ratio * scale, single))
    signed = found | (bits & ~_MAGNITUDE)
    if not kernel.has_neg_zero:
        signed = jnp.where(found == 0, 0, signed)
    signed = jnp.where(amax >= _INFINITY, _NAN, signed)
    return restore(lax.bitcast_convert_type(signed, jnp.float32))


def _divided(x: jax.Array, divisor: Any) -> jax.Array:
    """Return x / divisor, rounded once.

    XLA multiplies by the reciprocal of a divisor that it sees is broadcast, which
    rounds twice.
    """
    full = jnp.broadcast_to(jnp.asarray(divisor, x.dtype), x.shape)
    quotient: jax.Array = x / lax.optimization_barrier(full)
    return quotient


def _widened(bits: jax.Array) -> jax.Array:
    """Return float32 magnitudes as float64 without taking the smallest for zero."""
    field = jnp.maximum(bits >> 23, 1)
    significand = lax.convert_element_type(bits - ((field - 1) << 23), jnp.float64)
    exponent = lax.convert_element_type(field, jnp.int64) + (1023 - 150)
    return significand * lax.bitcast_convert_type(exponent << 52, jnp.float64)


def _narrowed(x: jax.Array) -> jax.Array:
    """Return the bits of float64 magnitudes that are float32 numbers."""
    small = lax.convert_element_type(x * 2.0**149, jnp.int32)
    narrow = lax.convert_element_type(x, jnp.float32)
    normal = lax.bitcast_convert_type(narrow, jnp.int32)
    return jnp.where(x < 2.0**-126, small, normal)


_MAGNITUDE: Final = np.int32(0x7FFFFFFF)
_INFINITY: Final = np.int32(0x7F800000)
_NAN: Final = np.int32(0x7FC00000)
_INTEGER: Final = {4: jnp.int32, 8: jnp.int64}


def _rounded_bits(
    x: jax.Array,
    kernel: FloatKernel,
    lowest: jax.Array | int | None = None,
    largest: jax.Array | None = None,
) -> jax.Array:
    """Return `x` rounded by its bits.

    Args:
        x: float32 or float64.
        kernel: the numbers, for the width of `x`.
        lowest: exponent field of the smallest normal number, where blocks differ.
        largest: bits of the largest number, where blocks differ; it then takes the
            place of all larger ones.
    """
    integer: Any = _INTEGER[x.dtype.itemsize]
    width = 8 * x.dtype.itemsize
    every = integer((1 << (width - 1)) - 1)
    bits = lax.bitcast_convert_type(x, integer)
    magnitude = bits & every
    field = jnp.maximum(magnitude >> kernel.stored, 1)
    offset = (field - 1) << kernel.stored
    significand = magnitude - offset
    # A subnormal number's exponent is that of its leading bit.
    leading = lax.clz(significand) - (width - 1 - kernel.stored)
    low = kernel.lowest if lowest is None else lowest
    shift = jnp.maximum(low, field - leading) - field + kernel.dropped
    # Two bits more than a significand has leave nothing of it in any mode.
    shift = jnp.minimum(shift, kernel.stored + 2)
    whole = _drop(significand, jnp.maximum(shift, 1), kernel)
    whole = jnp.where(shift < 1, significand, whole)
    rounded = jnp.where(whole == 0, 0, whole + offset)
    if largest is not None:
        rounded = jnp.minimum(rounded, largest)
    else:
        rounded = _bounded(rounded, magnitude, kernel, integer)
    signed = rounded | (bits & ~every)
    if not kernel.has_neg_zero:
        signed = jnp.where(rounded == 0, 0, signed)
    return lax.bitcast_convert_type(signed, x.dtype)


def _drop(significand: jax.Array, shift: jax.Array, kernel: FloatKernel) -> jax.Array:
    """Return significands as multiples of 2**shift."""
    one = jnp.ones((), shift.dtype)
    if kernel.mode == "nearest_even":
        odd = (significand >> shift) & 1
        significand = significand + odd + ((one << (shift - 1)) - 1)
    elif kernel.mode == "nearest_away":
        significand = significand + (one << (shift - 1))
    return (significand >> shift) << shift


def _bounded(
    rounded: jax.Array, magnitude: jax.Array, kernel: FloatKernel, integer: Any
) -> jax.Array:
    """Settle what lies beyond the range, Inf and NaN."""
    width = 8 * magnitude.dtype.itemsize
    fields = (1 << (width - 1 - kernel.stored)) - 1
    infinity = integer(fields << kernel.stored)
    rounded = jnp.where(rounded > kernel.largest, integer(kernel.beyond), rounded)
    rounded = jnp.where(magnitude == infinity, integer(kernel.infinity), rounded)
    return jnp.where(magnitude > infinity, integer(kernel.nan), rounded)


def _blocked(
    x: jax.Array, shared: SharedScale, axis: int
) -> tuple[jax.Array, Callable[[jax.Array], jax.Array], tuple[int, ...]]:
    """Return `x` with axes of its own for blocks, what undoes that, and those axes.

    Blocks at the end are padded with zeros, which change no scale.
    """
    shape = x.shape
    if shared.tile is not None:
        return _tiled(x, shared.tile)
    if shared.size is None:
        return x.reshape(-1), lambda y: y.reshape(shape), (0,)
    size, length = shared.size, shape[axis]
    count = -(-length // size)
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, count * size - length)
    whole = (*shape[:axis], count * size, *shape[axis + 1 :])
    cut = (*shape[:axis], count, size, *shape[axis + 1 :])

    def restore(y: jax.Array) -> jax.Array:
        return lax.slice_in_dim(y.reshape(whole), 0, length, axis=axis)

    return jnp.pad(x, padding).reshape(cut), restore, (axis + 1,)


def _tiled(
    x: jax.Array, tile: tuple[int, int]
) -> tuple[jax.Array, Callable[[jax.Array], jax.Array], tuple[int, ...]]:
    *outer, rows, columns = x.shape
    down, across = -(-rows // tile[0]), -(-columns // tile[1])
    missing = (down * tile[0] - rows, across * tile[1] - columns)
    padded = jnp.pad(x, [(0, 0)] * len(outer) + [(0, n) for n in missing])
    whole = padded.shape

    def restore(y: jax.Array) -> jax.Array:
        return y.reshape(whole)[..., :rows, :columns]

    cut = (*outer, down, tile[0], across, tile[1])
    axes = (len(outer) + 1, len(outer) + 3)
    return padded.reshape(cut), restore, axes


_WAYS: Final[dict[str, Callable[[jax.Array, Rounding, int], jax.Array]]] = {
    "float": _by_bits,
    "listed": _by_ladder,
    "numpy": _by_quantize,
    "power": _by_power,
    "quotient": _by_quotient,
}
