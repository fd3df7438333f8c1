# SPDX-License-Identifier: Apache-2.0
"""Rounding tensors as `numcheck.quantize` does, with integer arithmetic on their bits.

Everything here works on whole tensors where they lie: no value comes to the host
except for formats that only `quantize` itself knows.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import torch

from numcheck.simulation.rounding import SharedScale

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.simulation.rounding import FloatKernel, Rounding

__all__ = ["round_sum", "round_to"]

_INTEGER: Final = {torch.float32: torch.int32, torch.float64: torch.int64}


def round_to(x: torch.Tensor, rounding: Rounding, axis: int = -1) -> torch.Tensor:
    """Return `x` rounded; bit for bit what `quantize` gives.

    Args:
        x: float32 tensor.
        rounding: what to round to.
        axis: the axis along which blocks run.

    Example:
        >>> from numcheck.simulation import Rounding
        >>> round_to(torch.tensor([0.1, 3.14159]), Rounding("e4m3")).tolist()
        [0.1015625, 3.25]
    """
    if x.numel() == 0:
        return x.clone()
    return _WAYS[rounding.way](x, rounding, axis)


def round_sum(total: torch.Tensor, accumulator: Rounding) -> torch.Tensor:
    """Return float64 sums rounded once to an accumulator's format.

    Example:
        >>> from numcheck.simulation import Rounding
        >>> round_sum(torch.tensor(257.0).double(), Rounding("bf16")).item()
        256.0
    """
    return _rounded_bits(total, accumulator.kernel(64))


def _unchanged(x: torch.Tensor, rounding: Rounding, axis: int) -> torch.Tensor:
    return x


def _by_quantize(x: torch.Tensor, rounding: Rounding, axis: int) -> torch.Tensor:
    found = rounding.quantized(x.detach().cpu().numpy(), axis)
    return torch.from_numpy(found).to(x.device)


def _by_bits(x: torch.Tensor, rounding: Rounding, axis: int) -> torch.Tensor:
    return _rounded_bits(x, rounding.kernel())


def _by_ladder(x: torch.Tensor, rounding: Rounding, axis: int) -> torch.Tensor:
    ladder = rounding.ladder()
    thresholds, values = _table(rounding, x.device)
    magnitude = x.abs()
    found = values[torch.bucketize(magnitude.contiguous(), thresholds, right=True)]
    found = torch.where(magnitude == torch.inf, ladder.infinity, found)
    found = torch.copysign(found, x)
    if not ladder.has_neg_zero:
        found = torch.where(found == 0, 0.0, found)
    return torch.where(x.isnan(), torch.nan, found)


@functools.lru_cache(maxsize=16)
def _table(
    rounding: Rounding, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    ladder = rounding.ladder()
    return (
        torch.from_numpy(ladder.thresholds).to(device),
        torch.from_numpy(ladder.values).to(device),
    )


def _by_power(x: torch.Tensor, rounding: Rounding, axis: int) -> torch.Tensor:
    """Round blocks that share a power of two, the exponent of amax less the element's.

    Blocks among the smallest float32 numbers, whose spacing no longer follows their
    exponent field, go to `quantize`.
    """
    target: Any = rounding.target
    shared, kernel = SharedScale.of(target), rounding.kernel()
    blocks, restore, over = _blocked(x, shared, axis)
    amax = (blocks.view(torch.int32) & _magnitude(torch.float32)).amax(
        over, keepdim=True
    )
    field = amax >> kernel.stored
    scale = (field - (127 + shared.element_emax)).clamp_(shared.emin, shared.emax)
    lowest = scale + kernel.lowest
    largest = (scale << kernel.stored) + kernel.largest
    is_tiny = (lowest < 1) | (largest < (1 << kernel.stored))
    if bool((is_tiny & (amax > 0)).any()):
        return _by_quantize(x, rounding, axis)
    lowest.masked_fill_(amax == 0, kernel.lowest)
    largest.masked_fill_(amax == 0, kernel.largest)
    rounded = _rounded_bits(blocks, kernel, lowest, largest)
    if bool((field == 255).any()):
        rounded = torch.where(field == 255, torch.nan, rounded)
    return restore(rounded)


def _by_quotient(x: torch.Tensor, rounding: Rounding, axis: int) -> torch.Tensor:
    """Round blocks whose scale is amax / largest element, in float32."""
    target: Any = rounding.target
    shared, kernel = SharedScale.of(target), rounding.kernel(64)
    blocks, restore, over = _blocked(x, shared, axis)
    amax = blocks.abs().amax(over, keepdim=True)
    scale = (amax.double() / shared.element_max).float()
    scale = scale.clamp_(min=target.scale.smallest_subnormal).double()
    ratio = blocks.double() / scale
    rounded = (_rounded_bits(ratio, kernel) * scale).float()
    return restore(torch.where(amax.isfinite(), rounded, torch.nan))


def _magnitude(dtype: torch.dtype) -> int:
    return (1 << (dtype.itemsize * 8 - 1)) - 1


def _rounded_bits(
    x: torch.Tensor,
    kernel: FloatKernel,
    lowest: torch.Tensor | int | None = None,
    largest: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """Return `x` rounded by its bits.

    Args:
        x: float32 or float64.
        kernel: the numbers, for the width of `x`.
        lowest: exponent field of the smallest normal number, where blocks differ.
        largest: bits of the largest number, where blocks differ; it then takes the
            place of all larger ones.
    """
    all_bits = _magnitude(x.dtype)
    bits = x.view(_INTEGER[x.dtype])
    magnitude = bits & all_bits
    field = (magnitude >> kernel.stored).clamp_(min=1)
    low = kernel.lowest if lowest is None else lowest
    # Two bits more than a significand has leave nothing of it in any mode.
    shift = (low - field).clamp_(0, kernel.stored + 2 - kernel.dropped)
    shift += kernel.dropped
    offset = field.sub_(1).bitwise_left_shift_(kernel.stored)
    rounded = _drop(magnitude - offset, shift, kernel)
    is_zero = rounded == 0
    rounded += offset
    rounded.masked_fill_(is_zero, 0)
    if largest is not None:
        rounded = torch.minimum(rounded, torch.as_tensor(largest))
    else:
        rounded = _bounded(rounded, magnitude, kernel)
    if kernel.has_neg_zero:
        rounded |= bits & ~all_bits
    else:
        rounded = torch.where(is_zero, 0, rounded | (bits & ~all_bits))
    return rounded.view(x.dtype)


def _drop(
    significand: torch.Tensor, shift: torch.Tensor, kernel: FloatKernel
) -> torch.Tensor:
    """Return significands as multiples of 2**shift."""
    if kernel.mode == "nearest_even":
        odd = (significand >> shift).bitwise_and_(1)
        significand += odd
        significand += (1 << (shift - 1)) - 1
    elif kernel.mode == "nearest_away":
        significand += 1 << (shift - 1)
    return (significand >> shift).bitwise_left_shift_(shift)


def _bounded(
    rounded: torch.Tensor, magnitude: torch.Tensor, kernel: FloatKernel
) -> torch.Tensor:
    """Settle what lies beyond the range, Inf and NaN."""
    infinity = ((1 << (magnitude.dtype.itemsize * 8 - 1 - kernel.stored)) - 1) << (
        kernel.stored
    )
    if int(magnitude.max()) <= kernel.largest:
        return rounded.clamp_(max=kernel.beyond)  # the carry alone may leave the range
    rounded = torch.where(rounded > kernel.largest, kernel.beyond, rounded)
    rounded = torch.where(magnitude == infinity, kernel.infinity, rounded)
    return torch.where(magnitude > infinity, kernel.nan, rounded)


def _blocked(
    x: torch.Tensor, shared: SharedScale, axis: int
) -> tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]:
    """Return `x` with axes of its own for blocks, what undoes that, and those axes.

    Blocks at the end are padded with zeros, which change no scale.
    """
    shape = x.shape
    if shared.tile is not None:
        return _tiled(x, shared.tile)
    if shared.size is None:
        return x.reshape(-1), lambda y: y.reshape(shape), (0,)
    axis %= x.dim()
    length, size = shape[axis], shared.size
    missing = -length % size
    if missing:
        pads = [0, 0] * (x.dim() - 1 - axis) + [0, missing]
        x = torch.nn.functional.pad(x, pads)

    def restore(y: torch.Tensor) -> torch.Tensor:
        whole = y.flatten(axis, axis + 1)
        return whole.narrow(axis, 0, length) if missing else whole

    return x.unflatten(axis, (-1, size)), restore, (axis + 1,)


def _tiled(
    x: torch.Tensor, tile: tuple[int, int]
) -> tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]:
    rows, columns = x.shape[-2:]
    down, across = -rows % tile[0], -columns % tile[1]
    if down or across:
        x = torch.nn.functional.pad(x, [0, across, 0, down])
    blocks = x.unflatten(-1, (-1, tile[1])).unflatten(-3, (-1, tile[0]))

    def restore(y: torch.Tensor) -> torch.Tensor:
        whole = y.flatten(-2, -1).flatten(-3, -2)
        return whole[..., :rows, :columns]

    return blocks, restore, (-3, -1)


_WAYS: Final[dict[str, Callable[[torch.Tensor, Rounding, int], torch.Tensor]]] = {
    "none": _unchanged,
    "float": _by_bits,
    "listed": _by_ladder,
    "numpy": _by_quantize,
    "power": _by_power,
    "quotient": _by_quotient,
}
