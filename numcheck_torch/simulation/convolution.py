# SPDX-License-Identifier: Apache-2.0
"""Convolutions as the products they are, so that their sums can be kept narrow.

Every output is a product of a patch of the input with the weights; the sum runs through
the patch channel by channel. The gradients are convolutions too: that for the input of
the gradient with the weights turned round, that for the weight of the input with the
gradient.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Self

import torch

from numcheck_torch.simulation.sums import summed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.simulation import Arithmetic

__all__ = ["Convolution"]


@dataclasses.dataclass(frozen=True, slots=True)
class Convolution:
    """One convolution, its sums in the accumulator's format of an arithmetic.

    Attributes:
        stride: one number for each axis of the kernel, as are the next two.
        padding: zeros on either side.
        dilation: distance between the kernel's elements.
        is_transposed: whether it is the transpose of the one the numbers describe.
        extra: what is added to one side of a transposed one's output.
        groups: number of independent convolutions side by side.
        arithmetic: how the device adds.
    """

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    is_transposed: bool
    extra: tuple[int, ...]
    groups: int
    arithmetic: Arithmetic

    @classmethod
    def of(
        cls, weight: torch.Tensor, settings: Sequence[object], arithmetic: Arithmetic
    ) -> Self:
        """Return what the arguments after the bias of ``aten.convolution`` describe."""
        stride, padding, dilation, is_transposed, extra, groups = settings
        axes = weight.dim() - 2
        spread = [_for_each(v, axes) for v in (stride, padding, dilation, extra)]
        return cls(
            spread[0],
            spread[1],
            spread[2],
            bool(is_transposed),
            spread[3],
            int(groups),  # type: ignore[call-overload]
            arithmetic,
        )

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Return the output, without a bias, as float32."""
        if self.is_transposed:
            return self._back(x, weight, self.extra)
        return self._along(x, weight)

    def input_gradient(
        self, gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        """Return the gradient for the input `x` as float32."""
        if self.is_transposed:
            return self._along(gradient, weight)
        kernel = weight.shape[2:]
        extra = tuple(
            full - ((out - 1) * s - 2 * p + d * (k - 1) + 1)
            for full, out, s, p, d, k in zip(
                x.shape[2:],
                gradient.shape[2:],
                self.stride,
                self.padding,
                self.dilation,
                kernel,
                strict=True,
            )
        )
        return self._back(gradient, weight, extra)

    def weight_gradient(
        self, gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        """Return the gradient for the weight as float32."""
        seen, outer = (gradient, x) if self.is_transposed else (x, gradient)
        kernel = tuple(weight.shape[2:])
        patches = self._patches(_padded(seen, self.padding), kernel, self.stride)
        grouped = outer.flatten(2).unflatten(1, (self.groups, -1))
        rows = grouped.permute(1, 2, 0, 3).flatten(2)
        total = summed(rows, patches.transpose(0, 1).flatten(1, 2), self.arithmetic)
        return total.reshape(weight.shape)

    def _along(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return self._slid(_padded(x, self.padding), weight, self.stride)

    def _back(
        self, x: torch.Tensor, weight: torch.Tensor, extra: tuple[int, ...]
    ) -> torch.Tensor:
        """Go from outputs to inputs: slide the turned weights over spread outputs."""
        axes = tuple(range(2, weight.dim()))
        grouped = weight.flip(axes).unflatten(0, (self.groups, -1))
        turned = grouped.transpose(1, 2).flatten(0, 1)
        reach = [
            d * (k - 1) - p
            for d, k, p in zip(
                self.dilation, weight.shape[2:], self.padding, strict=True
            )
        ]
        sides = _padded(_spread(x, self.stride), reach, extra)
        return self._slid(sides, turned, (1,) * len(axes))

    def _slid(
        self, x: torch.Tensor, weight: torch.Tensor, stride: tuple[int, ...]
    ) -> torch.Tensor:
        """Return the products of every patch with the weights."""
        kernel = tuple(weight.shape[2:])
        rows = self._patches(x, kernel, stride)
        columns = weight.reshape(self.groups, weight.shape[0] // self.groups, -1)
        total = summed(rows, columns.transpose(1, 2), self.arithmetic)
        out = _places(x.shape[2:], kernel, stride, self.dilation)
        return total.transpose(2, 3).reshape(x.shape[0], weight.shape[0], *out)

    def _patches(
        self, x: torch.Tensor, kernel: tuple[int, ...], stride: tuple[int, ...]
    ) -> torch.Tensor:
        """Return (sample, group, place, element of the patch)."""
        axes = len(kernel)
        settings = zip(kernel, stride, self.dilation, strict=True)
        for axis, (k, s, d) in enumerate(settings, start=2):
            x = x.unfold(axis, d * (k - 1) + 1, s)
        x = x[_every(self.dilation)]
        x = x.unflatten(1, (self.groups, -1))
        places = range(3, 3 + axes)
        x = x.permute(0, 1, *places, 2, *range(3 + axes, 3 + 2 * axes))
        places_in_all = math.prod(x.shape[2 : 2 + axes])
        depth = math.prod(x.shape[2 + axes :])
        return x.reshape(x.shape[0], self.groups, places_in_all, depth)


def _for_each(value: object, axes: int) -> tuple[int, ...]:
    given: tuple[int, ...] = tuple(value)  # type: ignore[arg-type]
    return given * axes if len(given) == 1 else given


def _padded(
    x: torch.Tensor, sides: Sequence[int], extra: Sequence[int] = ()
) -> torch.Tensor:
    """Return `x` with zeros around it, or cut where a side is negative."""
    ends = [s + e for s, e in zip(sides, extra or (0,) * len(sides), strict=True)]
    pairs = list(zip(sides, ends, strict=True))
    flat = [n for pair in reversed(pairs) for n in pair]  # the last axis comes first
    return torch.nn.functional.pad(x, flat)


def _spread(x: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """Return `x` with stride − 1 zeros between neighbours."""
    sizes = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True)]
    wide = x.new_zeros(*x.shape[:2], *sizes)
    wide[_every(stride)] = x
    return wide


def _every(steps: Sequence[int]) -> tuple[Any, ...]:
    """Return the index of every so many places along the last axes."""
    return (..., *(slice(None, None, n) for n in steps))


def _places(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    return [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
    ]
