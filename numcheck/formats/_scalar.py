# SPDX-License-Identifier: Apache-2.0
"""Rounding every element of an array to a scalar format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.errors import ArgumentError
from numcheck.formats._arrays import as_array, chunks
from numcheck.formats._codes import value_dtype
from numcheck.formats._modes import modes_for
from numcheck.formats._registry import get
from numcheck.formats._rounders import rounder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format, Rounding
    from numcheck.formats._modes import Overflow, Subnormals

__all__ = ["quantize_scalar", "result_dtype"]


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
    out = _checked_out(out, array.shape, dtype)
    rng = np.random.default_rng(seed) if modes.rounding == "stochastic" else None
    convert = rounder(dtype, target, modes, array.size, rng)
    flat, start = out.reshape(-1), 0
    for piece in chunks(array):
        part = flat[start : start + piece.size]
        convert(piece.astype(dtype, copy=False), part)
        start += piece.size
    return out


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


def _checked_out(
    out: NDArray[Any] | None, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    if out is None:
        return np.empty(shape, dtype)
    if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous:
        raise ArgumentError(
            f"out must be a C-contiguous {dtype} array of shape {shape}, got "
            f"{out.dtype} of shape {out.shape}"
        )
    return out
