# SPDX-License-Identifier: Apache-2.0
"""Which arrays numcheck reads, and how to walk through them in small pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.errors import ArgumentTypeError, UnknownFormatError
from numcheck.formats._foreign import to_numpy
from numcheck.formats._registry import get

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import DTypeLike, NDArray

    from numcheck.formats._format import Format

__all__ = ["CHUNK", "PIECE", "as_array", "chunks", "codes_of", "format_of", "widened"]

# Elements at once where steps make temporaries, of which a dozen may be alive.
CHUNK: Final = 1 << 16
# Elements at once where steps write into one or two buffers: more of them share the
# fixed cost of a step, and all still stay in a processor's own cache.
PIECE: Final = 1 << 17


def as_array(x: object, what: str = "array") -> NDArray[Any]:
    """Return `x` as an array of real numbers, without copying one.

    Args:
        x: an array of any float, integer or bool dtype (numpy's, ml_dtypes' or a
            framework's), or a number or nested list of numbers.
        what: how the error text calls the argument.

    Raises:
        ArgumentTypeError: complex numbers, objects, text, dates, or something that
            numpy cannot read.

    Example:
        >>> as_array([1, 2.5]).dtype
        dtype('float64')
    """
    try:
        array = to_numpy(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentTypeError(
            f"{what} must be readable by numpy, got {type(x).__name__}: {error}"
        ) from error
    if array.dtype.kind in "fiub":
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind == "V":
        try:
            get(array.dtype)
        except UnknownFormatError:
            pass
        else:
            return array
    raise ArgumentTypeError(
        f"{what} must hold real numbers, got dtype {array.dtype} and shape "
        f"{array.shape}{_advice(array.dtype)}"
    )


def format_of(array: NDArray[Any]) -> Format | None:
    """Return the format of the array's dtype; None for one without a format.

    Example:
        >>> format_of(np.zeros(2, np.float16)).name
        'float16'
    """
    try:
        return get(array.dtype)
    except UnknownFormatError:
        return None


def codes_of(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array's bit patterns as unsigned integers of its item size.

    Example:
        >>> codes_of(np.ones(1, np.float16))
        array([15360], dtype=uint16)
    """
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def chunks(array: NDArray[Any], size: int = CHUNK) -> Iterator[NDArray[Any]]:
    """Yield the elements in row-major order as contiguous one-dimensional pieces.

    A piece may be overwritten by the next one: use it before asking for more.

    Example:
        >>> [piece.tolist() for piece in chunks(np.arange(5), 2)]
        [[0, 1], [2, 3], [4]]
    """
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        for start in range(0, flat.size, size):
            yield flat[start : start + size]
    elif array.ndim == 1:
        for start in range(0, array.size, size):
            yield np.ascontiguousarray(array[start : start + size])
    else:
        yield from _strided_chunks(array, size)


def widened(array: NDArray[Any], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return the array in a wider float dtype, itself when it has that already.

    Signalling NaNs become quiet ones without a warning.

    Example:
        >>> widened(np.ones(1, np.float16)).dtype
        dtype('float64')
    """
    if array.dtype == dtype:
        return array
    with np.errstate(invalid="ignore"):
        return array.astype(dtype)


def _strided_chunks(array: NDArray[Any], size: int) -> Iterator[NDArray[Any]]:
    row = array[0].size if len(array) else 0
    if row > size:
        for part in array:
            yield from chunks(part, size)
        return
    rows = max(1, size // max(row, 1))
    for start in range(0, len(array), rows):
        yield np.ascontiguousarray(array[start : start + rows]).reshape(-1)


def _advice(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "c":
        return "; pass x.real, x.imag or abs(x)"
    if dtype.kind == "O":
        return "; convert it with .astype(float) if it holds numbers"
    return ""
