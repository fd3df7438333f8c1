# SPDX-License-Identifier: Apache-2.0
"""The check as an operator: for compilers, exporters and `torch.func` transforms.

Compilers take the inside of a custom operator as it is, and `torch.func` peels its
levels off an autograd function one after the other; both need the check to be an
operation of its own, which returns a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.value_check import ValueCheck

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["checked_copy", "checked_under_transforms"]

Backward = tuple[torch.Tensor, None, None, None]


@torch.library.custom_op("numcheck::check_numerics", mutates_args=())
def checked_copy(x: torch.Tensor, name: str, phase: str, when: str) -> torch.Tensor:
    """Return a copy of `x`, checked; so is its gradient."""
    ValueCheck(name, phase, when).look(x)  # type: ignore[arg-type]
    return x.clone()


@checked_copy.register_fake
def _shape_of(x: torch.Tensor, name: str, phase: str, when: str) -> torch.Tensor:
    return torch.empty_like(x)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.name, ctx.when = inputs[1], inputs[3]


def _backward(ctx: Any, gradient: torch.Tensor) -> Backward:
    return checked_copy(gradient, ctx.name, "backward", ctx.when), None, None, None


checked_copy.register_autograd(_backward, setup_context=_remember)


def checked_under_transforms(x: torch.Tensor, name: str, when: str) -> torch.Tensor:
    """Return a copy of `x`, checked once every transform's level is off."""
    found: torch.Tensor = _apply(x, name, "forward", when)
    return found


class _Transformed(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor, name: str, phase: str, when: str) -> torch.Tensor:
        copy: torch.Tensor = checked_copy(x, name, phase, when)
        return copy

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _remember(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Backward:
        return _apply(gradient, ctx.name, "backward", ctx.when), None, None, None

    @staticmethod
    def vmap(
        _: Any, in_dims: Sequence[int | None], x: torch.Tensor, *rest: str
    ) -> tuple[torch.Tensor, int | None]:
        return _apply(x, *rest), in_dims[0]


_apply: Any = _Transformed.apply
