# SPDX-License-Identifier: Apache-2.0
"""Rounding every element of an array to a scalar format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.formats._arrays import (
    PIECE,
    as_array,
    as_floats,
    chunks,
    memory_order,
    widened,
)
from numcheck.formats._codes import value_dtype
from numcheck.formats._modes import modes_for
from numcheck.formats._registry import get
from numcheck.formats._rounders import generator, round_once, rounder

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from numcheck.formats._format import Format, Rounding
    from numcheck.formats._modes import Modes, Overflow, Subnormals

__all__ = ["checked_out", "quantize_scalar", "result_dtype"]


def quantize_scalar(
    x: object,
    fmt: object,
    *,
    rounding: Rounding | None = None,
    overflow: Overflow = "ieee",
    subnormals: Subnormals = "keep",
    seed: int | None = None,
    out: NDArray[np.floating[Any]] | None = None,
) -> NDArray[np.floating[Any]]:
    """Round every element to a scalar format; `quantize` says the rest.

    Example:
        >>> quantize_scalar([0.3, 70000.0], "fp16").tolist()
        [0.300048828125, inf]
    """
    array = as_array(x, "x")
    target = get(fmt)
    modes = modes_for(target, rounding, overflow, subnormals)
    dtype = result_dtype(array.dtype, target)
    # The result is laid out as the array is, so that a transposed one is read in one
    # go; but random numbers follow the elements.
    axes = memory_order(array) if out is None and modes.rounding != "stochastic" else ()
    if axes:
        array = array.transpose(axes)
    out = checked_out(out, array.shape, dtype)
    if np.may_share_memory(array, out):
        array = array.copy()
    rng = generator(modes, seed)
    convert: Callable[[NDArray[Any], NDArray[Any]], None]
    if _has_few_codes(array) and rng is None:
        convert = _CodeTable(array.dtype, dtype, target, modes)
    else:
        rounds = rounder(dtype, target, modes, array.size, rng)

        def convert(piece: NDArray[Any], part: NDArray[Any]) -> None:
            rounds(as_floats(piece, dtype, target.precision), part)

    flat, start = out.reshape(-1), 0
    for piece in chunks(array, PIECE):
        convert(piece, flat[start : start + piece.size])
        start += piece.size
    return out.transpose(np.argsort(axes)) if axes else out


def _has_few_codes(array: NDArray[Any]) -> bool:
    """Whether rounding every code once is less work than every element."""
    codes = 1 << (8 * array.dtype.itemsize)
    return array.dtype.itemsize <= 2 and array.size >= 2 * codes


class _CodeTable:
    """Looks up what each code of a narrow dtype becomes."""

    def __init__(
        self, given: np.dtype[Any], dtype: np.dtype[Any], fmt: Format, modes: Modes
    ) -> None:
        self._code = np.dtype(f"u{given.itemsize}")
        codes = np.arange(1 << (8 * given.itemsize), dtype=self._code)
        self._table = round_once(widened(codes.view(given), dtype), fmt, modes)

    def __call__(self, piece: NDArray[Any], out: NDArray[Any]) -> None:
        np.take(self._table, piece.view(self._code), out=out, mode="wrap")


def result_dtype(given: np.dtype[Any], fmt: Format) -> np.dtype[Any]:
    """Return the dtype in which rounding `given` to `fmt` is exact.

    float64 for float64, integers wider than 16 bits, and formats that float32 cannot
    hold; float32 for everything else.

    Example:
        >>> from numcheck.formats import get
        >>> result_dtype(np.dtype(np.float16), get("bfloat16"))
        dtype('float32')
    """
    exact = given.itemsize <= 2 or given == np.float32
    return value_dtype(fmt) if exact else np.dtype(np.float64)


def checked_out(
    out: NDArray[Any] | None, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Return `out` when it can take the result, a new array when it is None.

    Raises:
        ArgumentError: `out` has another shape or dtype or is not contiguous.
        ArgumentTypeError: it is no array.

    Example:
        >>> checked_out(None, (2, 3), np.dtype(np.float32)).shape
        (2, 3)
    """
    if out is None:
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray):
        raise ArgumentTypeError(f"out must be an array, got {type(out).__name__}")
    if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous:
        raise ArgumentError(
            f"out must be a C-contiguous {dtype} array of shape {shape}, got "
            f"{out.dtype} of shape {out.shape}"
        )
    return out
