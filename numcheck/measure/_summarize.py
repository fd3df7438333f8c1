# SPDX-License-Identifier: Apache-2.0
"""`summarize`: one pass over an array of any dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.formats._arrays import as_array, chunks, in_memory_order
from numcheck.formats._registry import get
from numcheck.measure._code_histogram import CodeHistogram
from numcheck.measure._floats import FloatPass, piece_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from numcheck.measure.summary import Summary

__all__ = ["summarize"]


def summarize(
    array: object,
    *,
    histogram: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Summary:
    """Return the counts and extremes of an array's elements.

    Args:
        array: numbers of any float, integer or bool dtype, numpy's or ml_dtypes', of
            any shape; memory-mapped arrays are read once, piece by piece.
        histogram: whether to count the elements per binade as well.
        progress: called with the number of elements of each finished piece.

    Returns:
        A `Summary` of which every count is exact. Sums are taken in float64 over the
        finite elements. Without elements it is `Summary.empty()` (its histogram None
        unless asked for); ``amax`` is None when nothing is finite and ``amin`` None
        when nothing is finite and non-zero.

    Raises:
        ArgumentTypeError: the array is complex or holds no numbers.

    Example:
        >>> import numpy as np
        >>> s = summarize(np.array([1.5, -0.25, 0.0, np.inf], np.float32))
        >>> s.amax, s.amin, s.zero, s.pos_inf, s.total
        (1.5, 0.25, 1, 1, 1.25)
    """
    values = in_memory_order(as_array(array))
    if values.dtype.kind in "iub":
        return _summarize_integers(values, histogram=histogram, progress=progress)
    if values.dtype.itemsize <= 2 and (histogram or values.dtype.itemsize == 1):
        return _summarize_codes(values, histogram=histogram, progress=progress)
    return _summarize_floats(values, histogram=histogram, progress=progress)


def _summarize_codes(
    values: NDArray[Any], *, histogram: bool, progress: Callable[[int], None] | None
) -> Summary:
    counted = CodeHistogram.of(values, progress=progress)
    return counted.summary(histogram=histogram)


def _summarize_floats(
    values: NDArray[Any], *, histogram: bool, progress: Callable[[int], None] | None
) -> Summary:
    run = FloatPass(get(values.dtype), values.dtype, values.size, histogram=histogram)
    for piece in chunks(values, piece_size(values.dtype)):
        run.add(piece)
        if progress is not None:
            progress(piece.size)
    return run.summary()


def _summarize_integers(
    values: NDArray[Any], *, histogram: bool, progress: Callable[[int], None] | None
) -> Summary:
    float64 = np.dtype(np.float64)
    run = FloatPass(get(float64), float64, values.size, histogram=histogram)
    for piece in chunks(values, piece_size(float64)):
        run.add(piece.astype(np.float64))
        if progress is not None:
            progress(piece.size)
    return run.summary()
