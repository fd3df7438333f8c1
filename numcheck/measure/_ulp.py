# SPDX-License-Identifier: Apache-2.0
"""Distance between numbers, counted in values of a format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.formats._arrays import as_array
from numcheck.formats._codes import code_values
from numcheck.formats._encode import encode
from numcheck.formats._registry import get

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format

__all__ = ["ulp_distance"]


def ulp_distance(a: object, b: object, fmt: object) -> NDArray[np.float64]:
    """Return how many steps of a format lie between a and b, element by element.

    Both are rounded to the format first. +0 and -0 are the same number, NaN and NaN
    are 0 apart; a NaN and a number are infinitely far apart, Inf is one step beyond
    the largest number.

    Args:
        a: array of real numbers.
        b: another, whose shape broadcasts with that of `a`.
        fmt: a scalar format.

    Returns:
        float64 of the shape of both: the distance in values of the format, as the
        difference of the numbers' places in order (sign-magnitude codes).

    Raises:
        UnknownFormatError: no scalar format has that name.
        ArgumentTypeError: an array holds no real numbers.

    Example:
        >>> ulp_distance([1.0, 0.0], [1.0009765625, -0.0], "fp16").tolist()
        [1.0, 0.0]
    """
    target = get(fmt)
    left, right = np.broadcast_arrays(as_array(a, "a"), as_array(b, "b"))
    shape, left, right = left.shape, left.reshape(-1), right.reshape(-1)
    with np.errstate(invalid="ignore"):  # a signalling NaN of ml_dtypes
        unknown_a, unknown_b = np.isnan(left), np.isnan(right)
    steps = _steps_between(
        np.where(unknown_a, 0, left), np.where(unknown_b, 0, right), target
    )
    steps[unknown_a != unknown_b] = np.inf
    steps[unknown_a & unknown_b] = 0
    return steps.reshape(shape)


def _steps_between(
    a: NDArray[Any], b: NDArray[Any], fmt: Format
) -> NDArray[np.float64]:
    if fmt.kind != "float":
        return np.abs(_rank(a, fmt) - _rank(b, fmt))
    sign = np.uint64(1 << (fmt.bits - 1))
    code_a, code_b = (encode(x, fmt).astype(np.uint64) for x in (a, b))
    size_a, size_b = code_a & (sign - np.uint64(1)), code_b & (sign - np.uint64(1))
    apart = np.maximum(size_a, size_b) - np.minimum(size_a, size_b)
    together = (code_a & sign) == (code_b & sign)
    return np.where(together, apart, size_a + size_b).astype(np.float64)


def _rank(x: NDArray[Any], fmt: Format) -> NDArray[np.float64]:
    if fmt.kind == "integer":
        return encode(x, fmt).astype(np.float64)
    values = code_values(fmt)
    order = np.argsort(values)  # NaN last
    rank = np.empty(values.size)
    rank[order] = np.arange(values.size)
    return np.asarray(rank[encode(x, fmt)])
