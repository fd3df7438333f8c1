# SPDX-License-Identifier: Apache-2.0
"""Sums whose running total is kept in a narrow format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.simulation.rounding import round_sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.simulation import Arithmetic

__all__ = ["bias_summed", "reduced", "summed", "total_over"]


def summed(
    left: torch.Tensor, right: torch.Tensor, arithmetic: Arithmetic
) -> torch.Tensor:
    """Return left @ right as float32, its running sum in the accumulator's format."""
    accumulator = arithmetic.accumulator
    if accumulator is None:
        return torch.matmul(left.float(), right.float())
    is_row, is_column = left.dim() == 1, right.dim() == 1
    wide_left = (left[None] if is_row else left).double()
    wide_right = (right[:, None] if is_column else right).double()
    running = torch.zeros((), dtype=torch.float64, device=left.device)
    for start in range(0, wide_left.shape[-1], arithmetic.chunk):
        stop = start + arithmetic.chunk
        part = wide_left[..., start:stop] @ wide_right[..., start:stop, :]
        running = round_sum(running + part, accumulator)
    total = running.float()
    if is_column:
        total = total.squeeze(-1)
    return total.squeeze(-1 if is_column else -2) if is_row else total


def total_over(
    x: torch.Tensor, axes: Sequence[int], arithmetic: Arithmetic
) -> torch.Tensor:
    """Return the sum over some axes as float32, added up in a tree.

    A device adds many numbers at once: `chunk` of them, at least two, give a partial
    sum, which is rounded, and partial sums are added in the same way.

    Example:
        >>> from numcheck.simulation.loading import parse
        >>> fp16 = parse("accumulator = 'float16'", "mine").arithmetic("sum", "float16")
        >>> total_over(torch.full((8,), 30000.0), [0], fp16).item()
        inf
    """
    accumulator = arithmetic.accumulator
    kept = [i for i in range(x.dim()) if i not in axes]
    parts = x.permute(*kept, *axes).reshape(*(x.shape[i] for i in kept), -1).double()
    if accumulator is None:
        return parts.sum(-1).float()
    many = max(arithmetic.chunk, 2)
    while parts.shape[-1] > 1:
        missing = -parts.shape[-1] % many
        padded = torch.nn.functional.pad(parts, [0, missing])
        parts = round_sum(padded.unflatten(-1, (-1, many)).sum(-1), accumulator)
    return round_sum(parts.sum(-1), accumulator).float()


def bias_summed(
    found: tuple[Any, ...], gradient: torch.Tensor, arithmetic: Arithmetic
) -> tuple[Any, ...]:
    """Return a convolution's gradients, that of its bias with a narrow running total.

    It is a sum over samples and places, as that of a linear layer's bias is.

    Args:
        found: the gradients of input, weight and bias.
        gradient: that of the output.
        arithmetic: how the device adds.
    """
    if found[2] is None:
        return found
    total = total_over(gradient.detach(), [0, *range(2, gradient.dim())], arithmetic)
    return *found[:2], total.to(found[2].dtype)


def reduced(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], arithmetic: Arithmetic
) -> torch.Tensor:
    """Return what ``sum`` or ``mean`` gives with a narrow running total.

    Args:
        name: which of the two.
        args: the operator's arguments.
        kwargs: its keywords.
        arithmetic: how the device adds.
    """
    x: torch.Tensor = args[0]
    given = args[1] if len(args) > 1 and args[1] is not None else ()
    chosen = given if isinstance(given, list | tuple) else (given,)
    axes = sorted({a % x.dim() for a in chosen}) if chosen else list(range(x.dim()))
    total = total_over(x.detach(), axes, arithmetic)
    if name == "mean":
        total = total / (x.numel() // max(total.numel(), 1))
    if len(args) > 2 and args[2]:
        for axis in axes:
            total = total.unsqueeze(axis)
    return total.to(kwargs.get("dtype") or x.dtype)
