# SPDX-License-Identifier: Apache-2.0
"""Matrix products whose sums are kept in a narrow accumulator."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.errors import ArgumentError
from numcheck.formats._arrays import as_array, widened
from numcheck.formats._modes import Modes
from numcheck.formats._quantize import quantize
from numcheck.formats._registry import get
from numcheck.formats._rounders import round_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["AccumulationBound", "accumulation_bound", "matmul"]

_ALIGNED_NAME: Final = re.compile(r"aligned([1-9]\d*)")
# Products of one aligned step are kept whole: limit them to a few MiB.
_MAX_PRODUCTS: Final = 1 << 19


def matmul(
    a: object,
    b: object,
    format: object = None,  # noqa: A002 - the word for it everywhere in this package
    accumulator: object = "float32",
    chunk: int = 1,
    promote_every: int | None = None,
) -> NDArray[np.float64]:
    """Return a @ b as a machine with a narrow accumulator would compute it.

    Args:
        a: array of shape (M, K).
        b: array of shape (K, N).
        format: what both are quantised to first (block formats along K); None leaves
            them as they are.
        accumulator: a scalar format, to which the running sum is rounded after every
            step; or ``aligned14`` and its like: the running sum and the products of a
            step are aligned to the largest of them and cut to that many bits, as some
            matrix engines do.
        chunk: number of products added in one step. Their sum is taken in float64.
        promote_every: number of products after which the running sum moves to a
            float32 sum and starts again from zero; a multiple of `chunk`.

    Returns:
        float64 of shape (M, N).

    Raises:
        ArgumentError: the shapes do not match, or a count is not positive.

    Example:
        >>> ones = np.ones((1, 4096))
        >>> matmul(ones, ones.T, accumulator="bfloat16").item()  # stuck at 2**8
        256.0
        >>> matmul(ones, ones.T, accumulator="bfloat16", promote_every=128).item()
        4096.0
    """
    left, right = _operands(a, b, format)
    _check_steps(chunk, promote_every)
    add = _adder(accumulator)
    total = np.zeros((left.shape[0], right.shape[1]))
    running = np.zeros_like(total)
    for start in range(0, left.shape[1], chunk):
        stop = start + chunk
        running = add(running, left[:, start:stop], right[start:stop])
        if promote_every and stop % promote_every == 0:
            total = _float32(total + running)
            running = np.zeros_like(total)
    return _float32(total + running) if promote_every else running


@dataclasses.dataclass(frozen=True, slots=True)
class AccumulationBound:
    """How large a sum of K products can become, against an accumulator's range.

    Margins are log2(max / bound) in bits, negative when the bound is out of range.

    Attributes:
        terms: K.
        worst: K · amax_a · amax_b, reached when all products agree in sign.
        random: √K · amax_a · amax_b, the size for random signs.
        worst_margin: bits from the worst case to the accumulator's largest number.
        random_margin: the same for random signs.
        safe_terms: largest K whose worst case stays in range; None without limit.
    """

    terms: int
    worst: float
    random: float
    worst_margin: float
    random_margin: float
    safe_terms: int | None


def accumulation_bound(
    terms: int, amax_a: float, amax_b: float, accumulator: object = "float32"
) -> AccumulationBound:
    """Return how large a sum of `terms` products can become.

    Args:
        terms: K, a whole number of at least 1.
        amax_a: largest magnitude of one factor, finite or Inf.
        amax_b: largest magnitude of the other.
        accumulator: the scalar format in which the sum is kept.

    Returns:
        Bounds and their margins in bits: +inf for a magnitude of 0, -inf for Inf.

    Raises:
        ArgumentError: a count is not positive, or a magnitude negative or NaN.

    Example:
        >>> bound = accumulation_bound(4096, 8.0, 4.0, "float16")
        >>> bound.worst, round(bound.worst_margin, 3), bound.safe_terms
        (131072.0, -1.001, 2047)
    """
    if not _is_count(terms) or not (amax_a >= 0 and amax_b >= 0):
        raise ArgumentError(
            "terms must be a whole number of at least 1 and magnitudes not negative, "
            f"got {terms!r}, {amax_a!r}, {amax_b!r}"
        )
    largest = get(accumulator).max
    product = amax_a * amax_b
    worst, random = terms * product, math.sqrt(terms) * product
    return AccumulationBound(
        terms,
        worst,
        random,
        _margin(largest, worst),
        _margin(largest, random),
        int(largest / product) if 0 < product < math.inf else None,
    )


def _margin(largest: float, bound: float) -> float:
    if bound == 0:
        return math.inf
    return math.log2(largest) - math.log2(bound) if bound < math.inf else -math.inf


def _operands(
    a: object, b: object, fmt: object
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    left, right = as_array(a, "a"), as_array(b, "b")
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise ArgumentError(
            "a and b must have shapes (M, K) and (K, N), got "
            f"{left.shape} and {right.shape}"
        )
    if fmt is not None:
        left, right = quantize(left, fmt), _along_rows(right, fmt)
    return widened(left), widened(right)


def _along_rows(right: NDArray[Any], fmt: object) -> NDArray[Any]:
    return quantize(right.T, fmt).T


def _check_steps(chunk: int, promote_every: int | None) -> None:
    counts = (chunk, 1 if promote_every is None else promote_every)
    if not all(_is_count(number) for number in counts):
        raise ArgumentError(
            "chunk and promote_every must be whole numbers of at least 1, got "
            f"{chunk!r} and {promote_every!r}"
        )
    if promote_every and promote_every % chunk:
        raise ArgumentError(
            f"promote_every must be a multiple of chunk, got {promote_every} and "
            f"{chunk}"
        )


def _is_count(number: object) -> bool:
    return isinstance(number, (int, np.integer)) and bool(number >= 1)


def _adder(
    accumulator: object,
) -> Callable[
    [NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
    NDArray[np.float64],
]:
    if isinstance(accumulator, str) and (match := _ALIGNED_NAME.fullmatch(accumulator)):
        bits = int(match[1])
        return lambda running, left, right: _aligned(running, left, right, bits)
    fmt = get(accumulator)
    modes = Modes(fmt.native_rounding)

    def rounded(
        running: NDArray[np.float64],
        left: NDArray[np.float64],
        right: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        # Inf and NaN in the operands behave as in any product.
        with np.errstate(invalid="ignore", over="ignore"):
            exact = running + left @ right
        return np.asarray(round_once(exact, fmt, modes), np.float64)

    return rounded


def _aligned(
    running: NDArray[np.float64],
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    bits: int,
) -> NDArray[np.float64]:
    result = np.empty_like(running)
    rows = max(1, _MAX_PRODUCTS // max(right.size, 1))
    for start in range(0, len(left), rows):
        part = left[start : start + rows]
        products = part[:, :, None] * right[None]
        before = running[start : start + rows, None, :]
        terms = np.concatenate([products, before], axis=1)
        exponent = np.frexp(np.abs(terms).max(axis=1, keepdims=True))[1]
        unit = np.ldexp(1.0, exponent - bits)
        result[start : start + rows] = (np.trunc(terms / unit) * unit).sum(axis=1)
    return result


def _float32(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(round_once(x, get("float32"), Modes()), np.float64)
