# SPDX-License-Identifier: Apache-2.0
"""`Machine`: stands below a program in place of the device, and computes as it does.

A dispatch mode at the very bottom sees every operator of the forward, the loss, the
backward and the update, and whatever watches the program sees what it returns. Where a
profile changes nothing about an operator, the operator runs untouched.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map_only

from numcheck.formats import Format
from numcheck_torch.dtypes import format_name
from numcheck_torch.higher_order import run_inside
from numcheck_torch.kinds import is_plain
from numcheck_torch.operators import describe
from numcheck_torch.simulation.fused import FUSED, step_by_step
from numcheck_torch.simulation.products import computed
from numcheck_torch.simulation.roles import Roles
from numcheck_torch.simulation.rounding import round_to
from numcheck_torch.simulation.sticky import StickyFlag
from numcheck_torch.simulation.sums import bias_summed, reduced

if TYPE_CHECKING:
    import weakref
    from collections.abc import Sequence

    from torch._ops import OpOverload

    from numcheck.simulation import Arithmetic, Profile
    from numcheck_torch.operators import Operator

__all__ = ["Machine"]

_SUMS: Final = ("matmul", "conv", "attention")
_UNSCALE: Final = torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default
_CONV_BACKWARD: Final = "aten.convolution_backward.default"
_TOTALS: Final = {
    "aten.sum.default": "sum",
    "aten.sum.dim_IntList": "sum",
    "aten.mean.default": "mean",
    "aten.mean.dim": "mean",
}
"""Sums that go through no product."""


class Machine(TorchDispatchMode):
    """Runs operators with the arithmetic of a profile.

    Attributes:
        profile: the arithmetic.
        flag: the sticky overflow flag; None where overflow gives Inf.

    Example:
        >>> from numcheck.simulation import load
        >>> x = torch.full((2, 2), 300.0, dtype=torch.float16)
        >>> with Machine(load("ascend910a")) as machine:
        ...     y = x * x
        >>> y[0, 0].item(), machine.flag.get_npu_overflow_flag()
        (65504.0, True)
    """

    is_device = True
    supports_higher_order_operators = True

    def __init__(self, profile: Profile) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.profile = profile
        self.flag = StickyFlag() if profile.saturates else None
        self.holders = 0  # functions under way that want it in place throughout
        # What has to be alive for the simulation to go on; None where nothing has to.
        self.lease: weakref.ref[Any] | None = None
        self._arithmetic = functools.cache(profile.arithmetic)
        self.roles = Roles(profile)

    @property
    def takes_attention_apart(self) -> bool:
        """Whether attention has to come as its products and its softmax."""
        rules = [self._arithmetic("attention", d) for d in ("float32", "float16")]
        return any(r.rounds_factors or r.fused == "truncate" for r in rules)

    @property
    def is_over(self) -> bool:
        """Whether nothing that runs now belongs to the program any more."""
        is_gone = self.lease is not None and self.lease() is None
        return is_gone and not self.holders

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run one operator."""
        if not all(map(is_plain, types)):
            return NotImplemented
        if self.is_over:
            return func(*args, **(kwargs or {}))
        if func is _UNSCALE and self.flag is not None:
            return self.flag.unscale(*args)
        operator, keywords = describe(func), kwargs or {}
        if operator.is_calling:
            return run_inside(self, func, args, keywords)
        self.roles.before(args)
        if operator.effect in ("compute", "cast") and not operator.is_silent:
            result = self._compute(func, operator, args, keywords)
        else:
            result = func(*args, **keywords)
        self.roles.after(operator, args, result)
        return result

    def _compute(
        self,
        func: OpOverload,
        operator: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if operator.effect == "cast":
            result = func(*args, **kwargs)
            dtype = _dtype_of(result)
            if dtype is None:
                return result
            return self._settled(
                result, self._arithmetic("cast", dtype), operator, (args, kwargs)
            )
        dtype = _dtype_of((args, kwargs))
        if dtype is None:
            return func(*args, **kwargs)
        arithmetic = self._arithmetic(operator.family, dtype)
        sums = self._arithmetic("sum", dtype)
        adds_bias = operator.name == _CONV_BACKWARD and sums.accumulator is not None
        if arithmetic.is_plain and not adds_bias:
            return func(*args, **kwargs)
        is_sum = operator.family in _SUMS and (
            arithmetic.rounds_factors or arithmetic.fused == "truncate"
        )
        if is_sum:
            name = func._schema.name.partition("::")[2].rstrip("_")
            result = computed(func, name, args, kwargs, arithmetic, self.roles)
        elif arithmetic.accumulator and operator.name in _TOTALS:
            result = reduced(_TOTALS[operator.name], args, kwargs, arithmetic)
        elif arithmetic.fused == "truncate" and operator.family in FUSED:
            result = step_by_step(func, args, kwargs, arithmetic, getattr(torch, dtype))
        else:
            result = func(*args, **kwargs)
        if adds_bias:
            result = bias_summed(result, args[0], sums)
        return self._settled(result, arithmetic, operator, (args, kwargs))

    def _settled(
        self, result: Any, arithmetic: Arithmetic, operator: Operator, operands: Any
    ) -> Any:
        """Return an operator's outputs with overflow, NaN and their format settled."""
        if self.flag is not None and arithmetic.saturate:
            limit = _limit(arithmetic) if operator.family in _SUMS else None
            self.flag.look(result, operands, factor_limit=limit)
        return _settled(result, arithmetic, operator)


def _limit(arithmetic: Arithmetic) -> float | None:
    """Return the largest factor of a product; None where larger ones are not cut."""
    factor = arithmetic.input
    if factor is None or factor.overflow == "ieee":
        return None
    target = factor.target
    return target.max if isinstance(target, Format) else None


def _dtype_of(tree: Any) -> str | None:
    """Return the format of the first floating-point tensor; None without one."""
    for leaf in tree_iter(tree):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return format_name(leaf.dtype)
    return None


def _settled(result: Any, arithmetic: Arithmetic, operator: Operator) -> Any:
    """Return an operator's outputs with overflow, NaN and the output's format settled.

    What was written in place is settled in place.
    """
    is_left = not (arithmetic.output or arithmetic.saturate or arithmetic.nan_to_zero)
    if is_left:
        return result

    def settle(value: torch.Tensor) -> torch.Tensor:
        if not value.is_floating_point():
            return value
        found = _one_settled(value, arithmetic)
        if operator.written and found is not value:
            return value.copy_(found)
        return found

    return tree_map_only(torch.Tensor, settle, result)


def _one_settled(value: torch.Tensor, arithmetic: Arithmetic) -> torch.Tensor:
    found = value
    if arithmetic.output is not None:
        found = round_to(value.float(), arithmetic.output).to(value.dtype)
    largest = torch.finfo(value.dtype).max if arithmetic.saturate else torch.inf
    if arithmetic.saturate or arithmetic.nan_to_zero:
        nan = 0.0 if arithmetic.nan_to_zero else torch.nan
        found = torch.nan_to_num(found, nan=nan, posinf=largest, neginf=-largest)
    return found
