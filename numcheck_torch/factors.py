# SPDX-License-Identifier: Apache-2.0
"""A step run with another number where it multiplies the loss by its scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from numcheck_torch.higher_order import run_inside
from numcheck_torch.operators import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch._ops import OpOverload

__all__ = ["OtherFactor"]

_PRODUCTS: Final = frozenset(
    {"aten.mul.Tensor", "aten.mul.Scalar", "aten.mul_.Tensor", "aten.mul_.Scalar"}
)


class OtherFactor(TorchDispatchMode):
    """Puts a number in the place of another that multiplies a scalar.

    Backward multiplies by it as well, because the product saved it.

    Args:
        factor: the number the program multiplies by.
        other: what takes its place.

    Attributes:
        met: how often it did.

    Example:
        >>> loss = torch.tensor(2.0)
        >>> with OtherFactor(1024.0, 1.0):
        ...     scaled = loss * 1024.0
        >>> scaled
        tensor(2.)
    """

    supports_higher_order_operators = True

    def __init__(self, factor: float, other: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.met = 0
        self._factor = factor
        self._other = other

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if describe(func).name in _PRODUCTS and all(map(_is_scalar, args)):
            place = next((i for i in (1, 0) if self._is_factor(args[i])), None)
            if place is not None:
                self.met += 1
                args = (*args[:place], self._instead(args[place]), *args[place + 1 :])
        return run_inside(self, func, args, kwargs or {})

    def _is_factor(self, value: Any) -> bool:
        return float(value) == self._factor

    def _instead(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.full_like(value, self._other)
        return self._other


def _is_scalar(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dim() == 0 and not value.is_complex()
    return isinstance(value, int | float)
