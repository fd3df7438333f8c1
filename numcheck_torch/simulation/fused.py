# SPDX-License-Identifier: Apache-2.0
"""Kernels that hold several steps, with every step's result rounded.

A framework's kernel keeps float32 between its steps and rounds at the end; a device
that writes each step to memory does not. PyTorch's own decompositions say what the
steps are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from numcheck_torch.operators import describe
from numcheck_torch.simulation.rounding import round_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch._ops import OpOverload

    from numcheck.simulation import Arithmetic

__all__ = ["FUSED", "step_by_step"]

FUSED: Final = frozenset({"softmax", "log_softmax", "normalisation", "logsumexp"})
"""Families whose kernels are taken apart."""


def step_by_step(
    func: OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    arithmetic: Arithmetic,
    dtype: torch.dtype,
) -> Any:
    """Return what an operator gives when each of its steps is rounded.

    Args:
        func: the operator; one that PyTorch cannot take apart runs whole.
        args: its arguments.
        kwargs: its keywords.
        arithmetic: how the device computes it.
        dtype: what is written to memory between the steps.

    Example:
        >>> from numcheck.simulation import Arithmetic
        >>> x = torch.tensor([0.0, 1.0]).bfloat16()
        >>> softmax = torch.ops.aten._softmax.default
        >>> step_by_step(softmax, (x, 0, False), {}, Arithmetic(), x.dtype).tolist()
        [0.26953125, 0.73046875]
    """
    from torch._decomp import decomposition_table

    steps = decomposition_table.get(func)
    if steps is None or func._schema.is_mutable:
        return func(*args, **kwargs)
    with _Between(arithmetic, dtype):
        return steps(*args, **kwargs)


class _Between(TorchDispatchMode):
    """Rounds what every arithmetic operator gives."""

    supports_higher_order_operators = True

    def __init__(self, arithmetic: Arithmetic, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._output = arithmetic.output
        self._dtype = dtype

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run one step."""
        result = func(*args, **(kwargs or {}))
        if describe(func).effect != "compute":
            return result
        return tree_map_only(torch.Tensor, self._rounded, result)

    def _rounded(self, value: torch.Tensor) -> torch.Tensor:
        if not value.is_floating_point():
            return value
        narrow = value.to(self._dtype)
        if self._output is not None:
            narrow = round_to(narrow.float(), self._output)
        return narrow.to(value.dtype)
