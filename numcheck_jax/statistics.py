# SPDX-License-Identifier: Apache-2.0
"""Array to `Summary` through its integer bit pattern, on the device.

A float maximum is no NaN detector: XLA's reductions drop NaN on some backends, so
every reduction here runs over integers. One row of words holds one array's
statistics, so that the rows of a whole program travel in one transfer.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from numcheck import formats
from numcheck.measure import summarize as _host_summarize
from numcheck_jax.columns import (
    COLUMNS,
    MAXIMA,
    MINIMA,
    SUMS,
    UNSIGNED,
    is_float,
    measure_of,
    measured_dtype,
    peak_of_infinity,
    peak_shift,
    sum_dtype,
)
from numcheck_jax.decoding import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numcheck.measure.summary import Summary
    from numcheck_jax.columns import Measure

__all__ = [
    "empty_rows",
    "is_bad",
    "merge_rows",
    "row",
    "rows_together",
    "shared_row",
    "summarize",
]


def row(
    x: jax.Array, measure: Measure = "full", *, apart: bool = False, sums: bool = True
) -> jax.Array:
    """Return the statistics of `x` as one row of unsigned words.

    Works on concrete and on traced arrays of any shape; an empty array gives the row
    that merges with any other without changing it.

    Args:
        x: a floating-point, complex or integer array; a complex number counts as
            two elements.
        measure: which columns to fill.
        apart: reduce each column by itself. A reduction of several operands reads the
            array once, but where the compiler has laid it out over devices it gathers
            each operand first.
        sums: False leaves the sums of a ``moments`` row unmeasured.
    """
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        x = jnp.stack([lax.real(x), lax.imag(x)])
    if x.size == 0:
        return empty_rows(1, measure)[0]
    columns = _float_columns(x) if is_float(x.dtype) else _integer_columns(x)
    names = tuple(name for name in COLUMNS[measure] if name not in SUMS)
    values = [columns[name]() for name in names]
    added = _added_up(x, measured=sums) if measure == "moments" else []
    if x.ndim == 0:
        return _packed(names, values, added, x.dtype)
    if apart:
        pairs = zip(names, values, strict=True)
        return _packed(names, [_reduced(n, v) for n, v in pairs], added, x.dtype)
    starts = [
        np.array(_start(name, v.dtype), v.dtype)
        for name, v in zip(names, values, strict=True)
    ]
    reduced = lax.reduce(
        values, starts, functools.partial(_merge, names), tuple(range(x.ndim))
    )
    return _packed(names, reduced, added, x.dtype)


def rows_together(arrays: Sequence[jax.Array], measure: Measure) -> jax.Array:
    """Return the rows of float arrays of one shape and dtype by a single reduction.

    A compiler that fuses what made them into it computes each of them once. Sums are
    left unmeasured.
    """
    names = tuple(name for name in COLUMNS[measure] if name not in SUMS)
    each = [_float_columns(x) for x in arrays]
    values = [columns[name]() for columns in each for name in names]
    start = [np.array(_start(n, v.dtype), v.dtype) for n, v in zip(names, values)]  # noqa: B905 - the first array's stand for all
    count = len(names)

    def merge(a: Any, b: Any) -> list[Any]:
        parts = range(0, len(values), count)
        merged = [_merge(names, a[i : i + count], b[i : i + count]) for i in parts]
        return [word for part in merged for word in part]

    dimensions = tuple(range(arrays[0].ndim))
    reduced = lax.reduce(values, start * len(arrays), merge, dimensions)
    rows = []
    for i, x in enumerate(arrays):
        words = reduced[i * count : (i + 1) * count]
        added = _added_up(x, measured=False) if measure == "moments" else []
        rows.append(_packed(names, words, added, x.dtype))
    return jnp.stack(rows)


def _added_up(x: jax.Array, *, measured: bool) -> list[jax.Array]:
    """Return the sum and the sum of squares as words, or that they are not measured.

    They are made in float32, that of a float64 array in float64. The compiler adds in
    partial sums, so that the error is a few units of that format beside the sum of
    magnitudes, whatever the size. A standard deviation below some 1e-3 of the mean is
    therefore lost in float32.
    """
    word = _word()
    if not measured or not is_float(x.dtype):
        unknown = np.array(np.nan, sum_dtype(word)).view(word)
        return [jnp.asarray(unknown)] * len(SUMS)
    wide = x if x.dtype.itemsize > 4 else lax.convert_element_type(x, jnp.float32)
    totals = jnp.stack([jnp.sum(wide), jnp.sum(wide * wide)])
    words = lax.bitcast_convert_type(totals.astype(sum_dtype(word)), word)
    return [words[0], words[1]]


def _reduced(name: str, column: jax.Array) -> jax.Array:
    """Return one column's reduction: a maximum or a sum, which collectives combine."""
    if name in MINIMA:
        return ~jnp.max(~column)
    return jnp.max(column) if name in MAXIMA else jnp.sum(column, dtype=column.dtype)


def merge_rows(a: jax.Array, b: jax.Array, measure: Measure = "full") -> jax.Array:
    """Return the rows of both arrays' elements together; shapes ``[..., columns]``."""
    names = COLUMNS[measure]
    pairs = (tuple(x[..., i] for i in range(len(names))) for x in (a, b))
    return jnp.stack(_merge(names, *pairs), axis=-1)


def is_bad(rows: jax.Array) -> jax.Array:
    """Return, for each row, whether something in it is not finite."""
    if measure_of(rows.shape[1]) in ("moments", "range"):
        return rows[:, 0] >= peak_of_infinity(rows.dtype)
    # Columns 2 to 4 count NaN, +Inf and -Inf.
    return (rows[:, 2:5] != 0).any(axis=1)


def empty_rows(count: int, measure: Measure = "full") -> jax.Array:
    """Return `count` rows that merge with any other without changing it."""
    word = np.dtype(_word())
    start = np.array([_start(name, word) for name in COLUMNS[measure]], word)
    return jnp.asarray(np.broadcast_to(start, (count, start.size)))


def summarize(array: jax.Array, measure: Measure = "full") -> Summary:
    """Return what an array holds; exact counts and extremes for every float dtype.

    On the host values are counted by binade as well.

    Example:
        >>> import jax.numpy as jnp
        >>> summarize(jnp.array([1.0, -jnp.inf, jnp.nan, 0.0])).nan
        1
    """
    if _is_on_host(array):
        values = np.asarray(array, array.dtype)
        if values.dtype.kind == "c":
            values = np.stack([values.real, values.imag])
        return _host_summarize(values, histogram=values.dtype.kind not in "iub")
    words = np.asarray(shared_row(array, measure))
    return decode(words, array.dtype, array.size, measure)


def _is_on_host(array: Any) -> bool:
    """Whether numpy sees the array's memory without a copy or a transfer."""
    if not isinstance(array, jax.Array):  # NumPy's, or a constant of the program
        return True
    devices = array.devices()
    return len(devices) == 1 and next(iter(devices)).platform == "cpu"


@functools.partial(jax.jit, static_argnames=("measure", "apart", "sums"))
def shared_row(
    x: jax.Array, measure: Measure, *, apart: bool = False, sums: bool = True
) -> jax.Array:
    """Return `row` by a call: arrays of one shape share its tracing and lowering."""
    return row(x, measure, apart=apart, sums=sums)


def _word() -> Any:
    """Words hold the bits of the widest float there can be."""
    return jnp.uint64 if jax.config.read("jax_enable_x64") else jnp.uint32


def _packed(
    names: Sequence[str], columns: Sequence[Any], added: Sequence[Any], dtype: Any
) -> jax.Array:
    """Return the columns, and after them the words of sums, as one row.

    Peaks are shifted so that Inf is the same word for every dtype.
    """
    word = _word()
    words = [lax.convert_element_type(c, word) for c in columns]
    if names[0] == "peak" and is_float(dtype):
        words[0] = words[0] + np.array(peak_shift(dtype, word), word)
    elif names[0] == "peak":
        words[0] = lax.min(words[0], np.array(peak_of_infinity(word) - 1, word))
    return jnp.stack([*words, *added])


def _start(name: str, dtype: Any) -> int:
    return int(np.iinfo(dtype).max) if name in MINIMA else 0


def _merge(names: tuple[str, ...], a: Any, b: Any) -> list[Any]:
    merged = []
    for name, x, y in zip(names, a, b, strict=True):
        if name in SUMS:
            pair = (lax.bitcast_convert_type(w, sum_dtype(w.dtype)) for w in (x, y))
            merged.append(lax.bitcast_convert_type(sum(pair), x.dtype))
        elif name in MAXIMA:
            merged.append(lax.max(x, y))
        else:
            merged.append(lax.min(x, y) if name in MINIMA else x + y)
    return merged


def _float_columns(x: jax.Array) -> dict[str, Callable[[], jax.Array]]:
    """Per-element integers whose reductions are the statistics."""
    normal = formats.get(x.dtype).smallest_normal
    x = lax.convert_element_type(x, measured_dtype(x.dtype))
    dtype = np.dtype(x.dtype)
    unsigned = np.dtype(UNSIGNED[dtype.itemsize])
    top = np.array(1 << (8 * dtype.itemsize - 1), unsigned)
    inf = np.array(np.inf, dtype).view(unsigned)
    bits = lax.bitcast_convert_type(x, unsigned)
    magnitude = bits & ~top
    negative = (bits & top) != 0
    finite = magnitude < inf
    is_inf = magnitude == inf
    small = (magnitude != 0) & (magnitude < np.array(normal, dtype).view(unsigned))
    # An unsigned integer that sorts like the float, the infinities included.
    order = jnp.where(negative, ~bits, bits | top)
    not_nan = magnitude <= inf
    count = functools.partial(lax.convert_element_type, new_dtype=jnp.uint32)
    last = np.array(np.iinfo(unsigned).max, unsigned)
    return {
        "peak": lambda: magnitude,
        "reach": lambda: bits ^ top,
        "amax": lambda: jnp.where(finite, magnitude, np.array(0, unsigned)),
        # Zero wraps to the largest word, so the minimum skips it; what is not finite
        # is larger than all that is.
        "amin": lambda: magnitude - np.array(1, unsigned),
        "nan": lambda: count(magnitude > inf),
        "pos_inf": lambda: count(is_inf & ~negative),
        "neg_inf": lambda: count(is_inf & negative),
        "zero": lambda: count(magnitude == 0),
        "subnormal": lambda: count(small),
        "low": lambda: jnp.where(not_nan, order, last),
        "high": lambda: jnp.where(not_nan, order, np.array(0, unsigned)),
    }


def _integer_columns(x: jax.Array) -> dict[str, Callable[[], jax.Array]]:
    wide = np.dtype(UNSIGNED[max(2, min(8, jnp.dtype(x.dtype).itemsize))])
    signed = jnp.issubdtype(x.dtype, jnp.signedinteger)
    as_wide = lax.convert_element_type(x, np.dtype(wide.name[1:]) if signed else wide)
    bits = lax.bitcast_convert_type(as_wide, wide)
    top = np.array(1 << (8 * wide.itemsize - 1), wide)
    order = bits ^ top if signed else bits
    magnitude = jnp.where(signed & ((bits & top) != 0), -bits, bits)
    none = jnp.zeros(x.shape, jnp.uint32)
    return {
        "peak": lambda: magnitude,
        "reach": lambda: order,
        "amax": lambda: magnitude,
        "amin": lambda: magnitude - np.array(1, wide),
        "nan": lambda: none,
        "pos_inf": lambda: none,
        "neg_inf": lambda: none,
        "zero": lambda: lax.convert_element_type(x == 0, jnp.uint32),
        "subnormal": lambda: none,
        "low": lambda: order,
        "high": lambda: order,
    }
