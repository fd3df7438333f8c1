# SPDX-License-Identifier: Apache-2.0
"""Operators that keep the order of their one operand's elements, or reverse it.

The smallest and the largest element of what they make are made of the operand's own,
by the same rounded arithmetic. So they need not be looked for among all elements. Only
operations that every kernel rounds correctly are taken; some divide by a number by
multiplying with its reciprocal.
"""

from __future__ import annotations

import ctypes
import math
import operator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import ml_dtypes
import numpy as np
import torch

from numcheck.measure.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.record.site import Site

__all__ = ["WORTH_IT", "Change", "change_of", "changed", "of_extremes", "rounded"]

WORTH_IT: Final = 1 << 14
"""Elements from which on it is cheaper than looking at all of them."""
_BEYOND: Final = 1 << 1023

# In float64, which holds what they make of two numbers in float32 exactly enough to
# be rounded once more as if at once.
_WITH_NUMBER: Final[dict[str, Callable[[float, float], float]]] = {
    "mul": operator.mul,
    "add": operator.add,
    "sub": operator.sub,
}
_ALONE: Final[dict[str, Callable[[float], float]]] = {
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "neg": operator.neg,
    "relu": lambda x: 0.0 if x < 0 else x,
}


def _single(x: float) -> float:
    """Round to float32; arrays of one take ten times as long."""
    return ctypes.c_float(x).value


# The format they are computed in, and the one of the result.
_COMPUTED: Final[dict[str, tuple[Callable[[float], float], Callable[[Any], Any]]]] = {
    "float16": (_single, np.float16),
    "bfloat16": (_single, ml_dtypes.bfloat16),
    "float32": (_single, float),
    "float64": (float, float),
}
_WIDENING: Final = frozenset(
    {(narrow, "float32") for narrow in ("float16", "bfloat16")}
    | {(narrow, "float64") for narrow in ("float16", "bfloat16", "float32")}
)
_OVERLOADS: Final = frozenset({"Tensor", "Scalar", "default"})


class Change(NamedTuple):
    """What an operator does to each element.

    Attributes:
        name: which operator.
        number: its other operand, where there is one.
    """

    name: str
    number: float | None


def change_of(site: Site) -> Change | None:
    """Return what an operator with one array operand does; None if unknown."""
    namespace, _, rest = site.op.partition(".")
    name, _, overload = rest.partition(".")
    name = name.removeprefix("_foreach_").removesuffix("_")
    if namespace != "aten" or overload not in _OVERLOADS:
        return None
    if site.dtype not in _COMPUTED:
        return None
    facts = dict(site.detail)
    facts.pop("forward_op", None)
    if name in _ALONE:
        return None if facts else Change(name, None)
    number = facts.pop("operand1", facts.pop("scalar", None))
    if name not in _WITH_NUMBER or facts or not isinstance(number, int | float):
        return None
    computed, _ = _COMPUTED[site.dtype]
    is_finite = abs(number) < _BEYOND and math.isfinite(computed(float(number)))
    # Zero times infinity may hide between the extremes.
    return Change(name, float(number)) if is_finite else None


def changed(summary: Summary, change: Change, dtype: str) -> Summary:
    """Return the extremes of the values an operator makes of values with these.

    Example:
        >>> changed(
        ...     Summary(n=9, low=-1.0, high=3.0), Change("mul", -2.0), "float32"
        ... ).low
        -6.0
    """
    if summary.low is None or summary.high is None:
        return Summary(n=summary.n)
    computed, result = _COMPUTED[dtype]
    if change.number is None:
        alone = _ALONE[change.name]
        found = alone(summary.low), alone(summary.high)
    else:
        both, number = _WITH_NUMBER[change.name], computed(change.number)
        found = both(summary.low, number), both(summary.high, number)
    first, last = computed(found[0]), computed(found[1])
    if result is not float:
        with np.errstate(all="ignore"):
            first = float(result(np.float32(first)))
            last = float(result(np.float32(last)))
    if math.isnan(first) or math.isnan(last):
        low = high = math.nan
    else:
        low, high = min(first, last), max(first, last)
    return of_extremes(summary.n, low, high)


def rounded(summary: Summary, before: str, after: str) -> Summary:
    """Return the extremes of values after a cast that keeps order.

    Example:
        >>> rounded(Summary(n=2, low=-1.0, high=1e39), "float64", "float32").high
        inf
    """
    if summary.low is None or summary.high is None:
        return Summary(n=summary.n)
    if (before, after) in _WIDENING:
        return of_extremes(summary.n, summary.low, summary.high)
    if before == "float64":
        # What a wider format rounds to on the way is PyTorch's affair.
        exact = torch.tensor([summary.low, summary.high], dtype=torch.float64)
        low, high = exact.to(getattr(torch, after)).tolist()
    else:
        result = _COMPUTED[after][1]
        with np.errstate(all="ignore"):
            low = float(result(np.float32(summary.low)))
            high = float(result(np.float32(summary.high)))
    return of_extremes(summary.n, low, high)


def of_extremes(n: int, low: float, high: float) -> Summary:
    """Return a summary of the smallest and the largest of all elements.

    Example:
        >>> of_extremes(2, -3.0, 1.0).amax
        3.0
    """
    is_finite = math.isfinite(low) and math.isfinite(high)
    return Summary(n, low=low, high=high, amax=max(-low, high) if is_finite else None)
