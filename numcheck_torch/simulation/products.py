# SPDX-License-Identifier: Apache-2.0
"""Sums of products: their factors rounded, their running sum kept narrow."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Final, Literal

import torch

from numcheck_torch.simulation.convolution import Convolution
from numcheck_torch.simulation.rounding import round_to
from numcheck_torch.simulation.sums import summed

if TYPE_CHECKING:
    from torch._ops import OpOverload

    from numcheck.simulation import Arithmetic, Rounding
    from numcheck_torch.simulation.roles import Roles

__all__ = ["Product", "computed", "product_of"]

Side = Literal["left", "right"]


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """Where an operator's factors stand, and the axes they are summed over.

    Attributes:
        left: position of the left factor.
        right: position of the right factor.
        axes: axis of each that is summed over.
        addend: position of what the product is added to; None when nothing is.
    """

    left: int
    right: int
    axes: tuple[int, int] = (-1, -2)
    addend: int | None = None


_ADDED: Final = Product(1, 2, addend=0)
_PRODUCTS: Final = {
    **dict.fromkeys(("mm", "bmm", "matmul", "mv", "dot", "vdot"), Product(0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm"), _ADDED),
    "_addmm_activation": _ADDED,
    "linear": Product(0, 1, axes=(-1, -1), addend=2),
    "convolution": Product(0, 1, axes=(1, 1), addend=2),
}
# Those that are a matrix product and at most an addition.
_APART: Final = frozenset(
    {
        "mm", "bmm", "matmul", "mv", "dot", "addmm", "baddbmm", "addmv", "linear",
        "convolution",
    }
)  # fmt: skip
_ATTENTION: Final = frozenset({"query", "key", "value", "grad_out", "grad_output"})


def product_of(name: str) -> Product | None:
    """Return where the factors of an operator stand; None for other operators.

    Example:
        >>> product_of("addmm").right, product_of("exp")
        (2, None)
    """
    return _PRODUCTS.get(name)


def computed(
    func: OpOverload,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    arithmetic: Arithmetic,
    roles: Roles,
) -> Any:
    """Return what an operator gives when a device multiplies as `arithmetic` says.

    Args:
        func: the operator.
        name: its name without overload and underscore.
        args: its arguments.
        kwargs: its keywords.
        arithmetic: how the device computes it.
        roles: which tensors are gradients, and which weights.
    """
    factors = _Factors(arithmetic, roles)
    if name == "convolution_backward":
        return _convolution_backward(func, args, kwargs, factors, arithmetic)
    product = product_of(name)
    if product is None:
        return func(*_with_attention(func, args, factors), **kwargs)
    axes = product.axes
    if name == "convolution" and args[6]:  # transposed: weight is (in, out, …)
        axes = (1, 0)
    left = factors.rounded(args[product.left], "left", axes[0])
    right = factors.rounded(args[product.right], "right", axes[1])
    writes = func._schema.is_mutable
    is_apart = arithmetic.accumulator is not None or arithmetic.fused == "truncate"
    if is_apart and name in _APART and not writes:
        return _apart(func, name, product, args, kwargs, (left, right), arithmetic)
    changed = list(args)
    changed[product.left], changed[product.right] = left, right
    dtype = args[product.left].dtype
    if writes:
        # The operator writes into a tensor of the program's own dtype.
        for at in (product.left, product.right):
            changed[at] = changed[at].to(dtype)
        return func(*changed, **kwargs)
    if product.addend is not None and product.addend < len(args):
        addend = args[product.addend]
        changed[product.addend] = None if addend is None else addend.to(left.dtype)
    return func(*changed, **kwargs).to(dtype)


class _Factors:
    """Rounds factors, each as its role in the product asks."""

    def __init__(self, arithmetic: Arithmetic, roles: Roles) -> None:
        self._arithmetic = arithmetic
        self._roles = roles

    def rounded(self, factor: torch.Tensor, side: Side, axis: int) -> torch.Tensor:
        """Return a factor as float32, rounded where the profile rounds it."""
        rounding = self._rounding(factor, side)
        if rounding is None:
            return factor
        wide = factor.float()
        if wide.dim() == 1:
            matrix = wide[None] if side == "left" else wide[:, None]
            return round_to(matrix, rounding, axis).reshape(wide.shape)
        return round_to(wide, rounding, axis)

    def _rounding(self, factor: torch.Tensor, side: Side) -> Rounding | None:
        gradient = self._arithmetic.gradient
        if gradient is not None and self._roles.is_gradient(factor):
            return gradient
        if side == "right" and not self._roles.is_weight(factor):
            side = "left"
        return self._arithmetic.factor(side)


def _apart(
    func: OpOverload,
    name: str,
    product: Product,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    factors: tuple[torch.Tensor, torch.Tensor],
    arithmetic: Arithmetic,
) -> torch.Tensor:
    """Compute a product and then what is added to it, each in its own precision."""
    left, right = factors
    dtype = args[product.left].dtype
    if name == "linear":
        right = right.t()
    if name != "convolution":
        total = summed(left, right, arithmetic)
    elif arithmetic.accumulator is None:
        total = func(left.float(), right.float(), None, *args[3:], **kwargs)
    else:
        total = Convolution.of(right, args[3:], arithmetic).forward(left, right)
    if arithmetic.fused == "truncate":
        total = _truncated(total, dtype, arithmetic)
    at = product.addend
    addend = args[at] if at is not None and at < len(args) else None
    if addend is not None and name == "convolution":
        addend = addend.reshape(-1, *(1,) * (total.dim() - 2))
    if addend is not None:
        total = total * kwargs.get("alpha", 1) + addend * kwargs.get("beta", 1)
    return total.to(dtype)


def _truncated(
    total: torch.Tensor, dtype: torch.dtype, arithmetic: Arithmetic
) -> torch.Tensor:
    narrow = total.to(dtype).float()
    return narrow if arithmetic.output is None else round_to(narrow, arithmetic.output)


def _convolution_backward(
    func: OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    factors: _Factors,
    arithmetic: Arithmetic,
) -> tuple[Any, ...]:
    """Compute each gradient with factors of its own: they are summed over others."""
    gradient, value, weight, *rest, mask = args
    is_transposed = bool(args[7])
    narrow = None
    if arithmetic.accumulator is not None:
        narrow = Convolution.of(weight, rest[1:], arithmetic)

    def one(i: int, *given: torch.Tensor) -> Any:
        only = [k == i for k in range(3)]
        same = [t.to(given[0].dtype) for t in given]
        return func(*same, *rest, only, **kwargs)[i]

    found: list[Any] = [None, None, None]
    if mask[0]:
        rounded = factors.rounded(gradient, "left", 1)
        kernel = factors.rounded(weight, "right", 1 if is_transposed else 0)
        back = functools.partial(one, 0) if narrow is None else narrow.input_gradient
        found[0] = back(rounded, value, kernel)
    if mask[1]:
        rounded = factors.rounded(gradient, "left", 0)
        other = factors.rounded(value, "left", 0)
        back = functools.partial(one, 1) if narrow is None else narrow.weight_gradient
        found[1] = back(rounded, other, weight)
    if mask[2]:
        found[2] = one(2, gradient, value, weight)
    return tuple(None if f is None else f.to(gradient.dtype) for f in found)


def _with_attention(
    func: OpOverload, args: tuple[Any, ...], factors: _Factors
) -> list[Any]:
    """Return the arguments of a fused attention with queries, keys, values rounded."""
    changed = list(args)
    for i, argument in enumerate(func._schema.arguments[: len(args)]):
        value = args[i]
        if argument.name in _ATTENTION and isinstance(value, torch.Tensor):
            changed[i] = factors.rounded(value, "left", -1).to(value.dtype)
    return changed
