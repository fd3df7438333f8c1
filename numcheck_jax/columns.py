# SPDX-License-Identifier: Apache-2.0
"""The columns of a row of statistics, and which arrays have a row."""

from __future__ import annotations

from typing import Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np

__all__ = [
    "COLUMNS",
    "MAXIMA",
    "MINIMA",
    "SUMS",
    "UNSIGNED",
    "Measure",
    "is_float",
    "is_measurable",
    "measure_of",
    "measured_dtype",
    "peak_of_infinity",
    "peak_shift",
    "sum_dtype",
    "width",
]

Measure = Literal["full", "lean", "moments", "range"]
"""``range`` rows are cheap enough for every value of every step: they hold the
extreme magnitudes and whether something is not finite, and of which sign.
``moments`` adds the sum and the sum of squares. ``lean`` ones count instead; ``full``
ones add the signed extremes and count subnormals."""

_LEAN: Final = ("amax", "amin", "nan", "pos_inf", "neg_inf", "zero")
_RANGE: Final = ("peak", "amin", "reach")
COLUMNS: Final[dict[Measure, tuple[str, ...]]] = {
    "range": _RANGE,
    "moments": (*_RANGE, "total", "total_sq"),
    "lean": _LEAN,
    "full": (*_LEAN, "subnormal", "low", "high"),
}
MAXIMA: Final = frozenset({"amax", "high", "peak", "reach"})
MINIMA: Final = frozenset({"amin", "low"})
SUMS: Final = ("total", "total_sq")
"""Columns that hold the bits of a float; NaN where the sum was not measured."""
UNSIGNED: Final[dict[int, Any]] = {2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}


def width(measure: Measure) -> int:
    """Return the number of words in a row."""
    return len(COLUMNS[measure])


def measure_of(columns: int) -> Measure:
    """Return which rows have so many words."""
    return next(m for m, names in COLUMNS.items() if len(names) == columns)


def is_measurable(aval: Any) -> bool:
    """Whether a value of this abstract type gets a row: numbers, not keys or flags."""
    dtype = getattr(aval, "dtype", None)
    # An abstract reference has the dtype of what it refers to.
    if dtype is None or hasattr(aval, "inner_aval"):
        return False
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return False
    return bool(jnp.issubdtype(dtype, jnp.number))


def is_float(dtype: Any) -> bool:
    """Whether a dtype is a floating-point one (complex is not)."""
    return bool(jnp.issubdtype(dtype, jnp.floating))


def peak_of_infinity(word: Any) -> int:
    """Return the word that stands for Inf among the peaks of all dtypes."""
    return int(np.iinfo(word).max) >> 1


def peak_shift(dtype: Any, word: Any) -> int:
    """Return what is added to the bits of a magnitude to make them a peak."""
    measured = np.dtype(measured_dtype(dtype))
    inf = np.array(np.inf, measured).view(UNSIGNED[measured.itemsize])
    return peak_of_infinity(word) - int(inf)


def measured_dtype(dtype: Any) -> Any:
    """Formats of eight bits and less are measured in float32, which holds them all."""
    return dtype if jnp.dtype(dtype).itemsize > 1 else jnp.float32


def sum_dtype(word: Any) -> Any:
    """Return the float whose bits fill a word, in which sums travel."""
    return np.dtype(f"float{8 * np.dtype(word).itemsize}")
