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

from numcheck.measure.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.record.site import Site

__all__ = ["WORTH_IT", "Change", "change_of", "changed"]

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
    ends = np.array([summary.low, summary.high]).astype(computed)
    with np.errstate(all="ignore"):
        if change.number is None:
            found = _ALONE[change.name](ends)
        else:
            found = _WITH_NUMBER[change.name](ends, computed(change.number))
        first, last = found.astype(result).astype(np.float64).tolist()
    if math.isnan(first) or math.isnan(last):
        low = high = math.nan
    else:
        low, high = min(first, last), max(first, last)
    is_finite = math.isfinite(low) and math.isfinite(high)
    amax = max(-low, high) if is_finite else None
    return Summary(n=summary.n, low=low, high=high, amax=amax)
