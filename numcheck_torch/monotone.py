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

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from numcheck.record.site import Site

    Array = npt.NDArray[np.float64]

__all__ = ["WORTH_IT", "Change", "change_of", "changed", "rounded"]

WORTH_IT: Final = 1 << 14
"""Elements from which on it is cheaper than looking at all of them."""
_BEYOND: Final = 1 << 1023

# In float64, which holds what they make of two numbers in float32 exactly enough to
# be rounded once more as if at once.
_WITH_NUMBER: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "mul": np.multiply,
    "add": np.add,
    "sub": np.subtract,
}
_ALONE: Final[dict[str, Callable[[Array], Array]]] = {
    "sqrt": np.sqrt,
    "neg": np.negative,
    "relu": lambda x: np.where(x < 0, 0.0, x),
}
# The format they are computed in, and the one of the result.
_COMPUTED: Final[dict[str, tuple[Any, Any]]] = {
    "float16": (np.float32, np.float16),
    "bfloat16": (np.float32, ml_dtypes.bfloat16),
    "float32": (np.float32, np.float32),
    "float64": (np.float64, np.float64),
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
    if not abs(number) < _BEYOND:
        return None
    computed, _ = _COMPUTED[site.dtype]
    with np.errstate(over="ignore"):
        is_finite = math.isfinite(computed(float(number)))
    # Zero times infinity may hide between the extremes.
    return Change(name, float(number)) if is_finite else None


def changed(extremes: Array, name: str, numbers: Array | None, dtype: str) -> Array:
    """Return the extremes of the values an operator makes of values with these.

    Args:
        extremes: smallest and largest of each value, of shape (values, 2).
        name: the operator, see `Change`.
        numbers: its other operand for each value, where there is one.
        dtype: format of the values.

    Example:
        >>> changed(np.array([[-1.0, 3.0]]), "mul", np.array([-2.0]), "float32")
        array([[-6.,  2.]])
    """
    computed, result = _COMPUTED[dtype]
    with np.errstate(all="ignore"):
        if numbers is None:
            found = _ALONE[name](extremes)
        else:
            rounded_numbers = numbers.astype(computed).astype(np.float64)
            found = _WITH_NUMBER[name](extremes, rounded_numbers[:, None])
        found = found.astype(computed).astype(result).astype(np.float64)
    ends = found.min(axis=1), found.max(axis=1)
    return np.stack(ends, axis=1)


def rounded(extremes: Array, before: str, after: str) -> Array:
    """Return the extremes of values after a cast that keeps order.

    Args:
        extremes: smallest and largest of each value, of shape (values, 2).
        before: format of the values.
        after: format they are cast to.

    Example:
        >>> rounded(np.array([[-1.0, 1e39]]), "float64", "float32")
        array([[-1., inf]])
    """
    if (before, after) in _WIDENING:
        return extremes
    if before == "float64":
        # What a wider format rounds to on the way is PyTorch's affair.
        exact = torch.tensor(extremes, dtype=torch.float64)
        cast: Array = exact.to(getattr(torch, after)).double().numpy()
        return cast
    with np.errstate(all="ignore"):
        single = extremes.astype(np.float32)
        return single.astype(_COMPUTED[after][1]).astype(np.float64)
