# SPDX-License-Identifier: Apache-2.0
"""Operators that keep the order of their one operand's elements, or reverse it.

The smallest and the largest element of what they make are made of the operand's own,
by the same rounded arithmetic. So they need not be looked for among all elements. Only
operations that every kernel rounds correctly are taken; some divide by a number by
multiplying with its reciprocal.
"""

from __future__ import annotations

import math
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

_WITH_NUMBER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "mul": np.multiply,
    "add": np.add,
    "sub": np.subtract,
}
_ALONE: Final[dict[str, Callable[[Any], Any]]] = {
    "sqrt": np.sqrt,
    "neg": np.negative,
    "relu": lambda x: np.maximum(x, np.float32(0)),
}
# The format they are computed in, and the one of the result.
_COMPUTED: Final[dict[str, tuple[Any, Any]]] = {
    "float16": (np.float32, np.float16),
    "bfloat16": (np.float32, ml_dtypes.bfloat16),
    "float32": (np.float32, np.float32),
    "float64": (np.float64, np.float64),
}
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
    with np.errstate(over="ignore"):
        is_finite = bool(np.isfinite(computed(number)))
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
    ends = computed(summary.low), computed(summary.high)
    # Numbers one by one: arrays of two take ten times as long.
    with np.errstate(all="ignore"):
        if change.number is None:
            alone = _ALONE[change.name]
            found = alone(ends[0]), alone(ends[1])
        else:
            both, number = _WITH_NUMBER[change.name], computed(change.number)
            found = both(ends[0], number), both(ends[1], number)
        first, last = float(result(found[0])), float(result(found[1]))
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
