# SPDX-License-Identifier: Apache-2.0
"""Operators that call functions they are given: conditions, loops, operators as such.

PyTorch takes a mode off while it hears of one, so that what the functions call would
pass it by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Unfolded", "is_higher_order", "run_inside"]

_HANDING_ON: Final = frozenset(
    {
        "cond",
        "graphsafe_run_with_rng_state",
        "hints_wrapper",
        "run_and_save_rng_state",
        "run_with_rng_state",
        "strict_mode",
        "while_loop",
    }
)
"""Those whose functions get the very operands, and make the very results."""


def is_higher_order(operator: object) -> bool:
    """Whether an operator has no schema, and may call functions.

    Example:
        >>> is_higher_order(torch.ops.higher_order.cond)
        True
        >>> is_higher_order(torch.ops.aten.add.Tensor)
        False
    """
    return isinstance(operator, torch._ops.HigherOrderOperator)


def run_inside(
    mode: TorchDispatchMode,
    operator: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run an operator that came to a mode, which hears what its functions call.

    Those that put operands and results together themselves run as a whole.

    Example:
        >>> from numcheck_torch.generators import PutBack
        >>> dropout, x = torch.ops.aten.native_dropout.default, torch.ones(2)
        >>> run = torch.ops.higher_order.run_and_save_rng_state
        >>> state, (y, kept) = run_inside(PutBack(), run, (dropout, x, 0.0, True), {})
        >>> y
        tensor([1., 1.])
    """
    name = operator.name() if is_higher_order(operator) else ""
    if name not in _HANDING_ON:
        return operator(*args, **kwargs)
    inner = [_under(mode, a) if callable(a) else a for a in args]
    return operator(*inner, **kwargs)


class Unfolded(TorchFunctionMode):
    """Runs the branch a condition takes as if it stood there.

    Uncompiled, PyTorch differentiates a condition by its operands alone, not by what
    its functions close over.

    Example:
        >>> w, x = torch.ones(1, requires_grad=True), torch.ones(1)
        >>> with Unfolded(), torch.compiler.set_stance("force_eager"):
        ...     y = torch.cond(x.sum() > 0, lambda x: x * w, lambda x: x, (x,))
        >>> y.requires_grad
        True
    """

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run one function."""
        if func is torch.ops.higher_order.cond and not kwargs:
            is_met, met, unmet, operands = args
            return (met if is_met else unmet)(*operands)
        return func(*args, **(kwargs or {}))


def _under(mode: TorchDispatchMode, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        torch._C._push_on_torch_dispatch_stack(mode)
        try:
            return function(*args, **kwargs)
        finally:
            torch._C._pop_torch_dispatch_stack(None)

    return run
