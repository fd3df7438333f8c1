# SPDX-License-Identifier: Apache-2.0
"""From rows of statistics back to summaries, on the host."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from numcheck.measure.summary import Summary
from numcheck_jax.columns import (
    COLUMNS,
    MAXIMA,
    MINIMA,
    UNSIGNED,
    is_float,
    measured_dtype,
    peak_of_infinity,
    peak_shift,
    sum_dtype,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck_jax.columns import Measure

__all__ = ["decode", "decode_rows"]


def decode(
    words: np.ndarray[Any, Any], dtype: Any, size: int, measure: Measure = "full"
) -> Summary:
    """Return the `Summary` that a row stands for.

    Args:
        words: one row.
        dtype: dtype of the array it was made of.
        size: number of elements of that array.
        measure: which columns the row has.
    """
    return decode_rows(np.asarray(words)[None], dtype, [size], measure)[0]


def decode_rows(
    words: np.ndarray[Any, Any],
    dtype: Any,
    sizes: Sequence[int],
    measure: Measure = "full",
) -> list[Summary]:
    """Return the summaries that the rows of arrays of one dtype stand for.

    Args:
        words: one row for each array.
        dtype: dtype of the arrays.
        sizes: number of elements of each.
        measure: which columns the rows have.
    """
    if jnp.issubdtype(dtype, jnp.complexfloating):
        sizes, dtype = [2 * n for n in sizes], np.finfo(dtype).dtype
    if measure in ("moments", "range"):
        return _decoded_ranges(words, dtype, sizes)
    columns = dict(zip(COLUMNS[measure], words.T, strict=True))
    if is_float(dtype):
        numbers = _float_numbers(columns, np.dtype(measured_dtype(dtype)))
    else:
        numbers = _integer_numbers(columns, np.dtype(dtype))
    lists = {name: column.tolist() for name, column in columns.items()}
    lists.update({name: values.tolist() for name, values in numbers.items()})
    return [
        _summary({name: values[k] for name, values in lists.items()}, size)
        for k, size in enumerate(sizes)
    ]


def _decoded_ranges(
    words: np.ndarray[Any, Any], dtype: Any, sizes: Sequence[int]
) -> list[Summary]:
    """Return what rows say that count nothing: all is known while all is finite."""
    limit = peak_of_infinity(words.dtype)
    peaks, _, reaches = (column.astype(object) for column in words.T[:3])
    shift, top = (0, 0)
    if is_float(dtype):
        bits = 8 * np.dtype(measured_dtype(dtype)).itemsize
        shift, top = peak_shift(dtype, words.dtype), 1 << (bits - 1)
    plain = np.stack([np.maximum(peaks - shift, 0).astype(words.dtype), words[:, 1]])
    columns = dict(zip(("amax", "amin"), plain, strict=True))
    if is_float(dtype):
        numbers = _float_numbers(columns, np.dtype(measured_dtype(dtype)))
    else:
        numbers = _integer_numbers(columns, np.dtype(dtype))
    extremes = zip(numbers["amax"].tolist(), numbers["amin"].tolist(), strict=True)
    sums = _sums(words[:, 3:], numbers["amax"], np.asarray(sizes, np.float64), dtype)
    found = []
    for k, (size, (amax, amin)) in enumerate(zip(sizes, extremes, strict=True)):
        if not size:
            found.append(Summary.empty())
        elif peaks[k] > limit:
            found.append(Summary(size, low=math.nan, high=math.nan))
        elif peaks[k] == limit:
            above = reaches[k] == (limit - shift) ^ top
            high, low = (math.inf, None) if above else (None, -math.inf)
            found.append(Summary(size, nan=0, low=low, high=high))
        elif amax == 0:
            zeros = Summary(size, 0, 0, 0, zero=size, amax=0.0, total=0.0, total_sq=0.0)
            found.append(zeros)
        else:
            total, square = sums[k]
            found.append(
                Summary(
                    size, 0, 0, 0, amax=amax, amin=amin, total=total, total_sq=square
                )
            )
    return found


def _sums(
    words: np.ndarray[Any, Any],
    amax: np.ndarray[Any, Any],
    sizes: np.ndarray[Any, Any],
    dtype: Any,
) -> list[tuple[float | None, float | None]]:
    """Return the sums that rows hold; None where one has left its format.

    A square below the smallest normal number counts for nothing. Where so small ones
    could be a millionth of the sum, it is not known.
    """
    if not words.shape[1]:
        return [(None, None)] * len(words)
    made_in = np.finfo(np.float64 if np.dtype(dtype).itemsize > 4 else np.float32)
    values = words.view(sum_dtype(words.dtype)).astype(np.float64)
    lost = 1e6 * sizes * float(made_in.tiny)
    known = np.isfinite(values)
    known[:, 0] &= amax > 1e6 * float(made_in.tiny)
    known[:, 1] &= values[:, 1] > lost
    pairs = zip(values.tolist(), known.tolist(), strict=True)
    return [(t if a else None, s if b else None) for (t, s), (a, b) in pairs]


def _float_numbers(
    columns: dict[str, np.ndarray[Any, Any]], dtype: np.dtype[Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the columns that hold floats, as numbers."""
    unsigned = np.dtype(UNSIGNED[dtype.itemsize])
    top = np.array(1 << (8 * dtype.itemsize - 1), unsigned)

    def number(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return bits.view(dtype).astype(np.float64)

    found = {name: c.astype(unsigned) for name, c in columns.items()}
    numbers = {
        "amax": number(found["amax"]),
        "amin": number(found["amin"] + np.array(1, unsigned)),
    }
    for name in MAXIMA | MINIMA:
        if name not in numbers and name in found:
            key = found[name]
            numbers[name] = number(np.where(key & top, key ^ top, ~key))
    return numbers


def _integer_numbers(
    columns: dict[str, np.ndarray[Any, Any]], dtype: np.dtype[Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the columns that hold integers, as numbers."""
    bits = 8 * max(2, min(8, dtype.itemsize))
    offset = 1 << (bits - 1) if jnp.issubdtype(dtype, jnp.signedinteger) else 0
    mask = (1 << bits) - 1
    numbers = {
        "amax": columns["amax"].astype(np.float64),
        "amin": np.array([float((w + 1) & mask) for w in columns["amin"].tolist()]),
    }
    for name in ("low", "high"):
        if name in columns:
            words = columns[name].tolist()
            numbers[name] = np.array([float(w - offset) for w in words])
    return numbers


def _summary(found: dict[str, Any], size: int) -> Summary:
    if size == 0:
        return Summary.empty()
    finite = size - found["nan"] - found["pos_inf"] - found["neg_inf"]
    extremes = {name: found.get(name) for name in ("low", "high")}
    if found["nan"] and "low" in found:
        extremes = {"low": math.nan, "high": math.nan}
    return Summary(
        n=size,
        nan=found["nan"],
        pos_inf=found["pos_inf"],
        neg_inf=found["neg_inf"],
        zero=found["zero"],
        subnormal=found.get("subnormal"),
        low=extremes["low"],
        high=extremes["high"],
        amax=found["amax"] if finite else None,
        amin=found["amin"] if finite > found["zero"] else None,
    )
