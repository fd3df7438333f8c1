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

__all__ = [
    "CHUNK",
    "PIECE",
    "as_array",
    "as_floats",
    "chunks",
    "codes_of",
    "format_of",
    "in_memory_order",
    "memory_order",
    "widened",
]

# Elements at once where steps make temporaries, of which a dozen may be alive.
CHUNK: Final = 1 << 16
# Elements at once where steps write into one or two buffers: more of them share the
# fixed cost of a step, and all still stay in a processor's own cache.
PIECE: Final = 1 << 17
_MAX_FLOAT_BYTES: Final = 8
# Of a 64-bit integer beyond 2**53 at least 42 bits lie above the 11 that float64 lacks
# room for; the lowest of them can say whether anything below it was lost.
_STICKY_PRECISION: Final = 40
_LOST: Final = np.uint64((1 << 11) - 1)


def as_array(x: object, what: str = "array") -> NDArray[Any]:
    """Return `x` as an array of real numbers, without copying one.

    Args:
        x: an array of any float, integer or bool dtype (numpy's, ml_dtypes' or a
            framework's), or a number or nested list of numbers.
        what: how the error text calls the argument.

    Raises:
        ArgumentTypeError: complex numbers, objects, text, dates, long doubles, an
            array with masked elements, or something that numpy cannot read.

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
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        hidden = int(np.count_nonzero(np.ma.getmaskarray(x)))
        raise ArgumentTypeError(
            f"{what} must not have masked elements, got {hidden} of {x.size}; "
            "pass x.compressed() to leave them out, or x.filled(0)"
        )
    kind, width = array.dtype.kind, array.dtype.itemsize
    if kind in "iub" or (kind == "f" and width <= _MAX_FLOAT_BYTES):
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    if kind == "V":
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


def as_floats(
    array: NDArray[Any], dtype: np.dtype[Any], precision: int
) -> NDArray[np.floating[Any]]:
    """Return the array in a float dtype, fit for one rounding to `precision` bits.

    64-bit integers that float64 cannot hold are rounded to odd, which no later
    rounding to at most 40 bits can tell from the integer itself.

    Example:
        >>> x = as_floats(np.array([2**60 + 2**36 + 1]), np.dtype("f8"), 24)
        >>> x.item() > 2**60 + 2**36
        True
    """
    wide = widened(array, dtype)
    is_long = array.dtype.kind in "iu" and array.dtype.itemsize == 8
    if not is_long or precision > _STICKY_PRECISION:
        return wide
    beyond = np.abs(wide) > 2.0**53
    if beyond.any():
        # The magnitude of the lowest int64 is right once it is seen without a sign.
        size = np.abs(array[beyond]).view(np.uint64)
        odd = (size & ~_LOST) | np.where(size & _LOST, _LOST + np.uint64(1), 0)
        wide[beyond] = np.copysign(odd.astype(dtype), wide[beyond])
    return wide


def in_memory_order(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array with its axes ordered so that neighbours lie side by side.

    For what does not depend on the order of elements: read along its columns, an
    array in Fortran order takes ten times as long.

    Example:
        >>> in_memory_order(np.zeros((2, 3), order="F")).flags.c_contiguous
        True
    """
    axes = memory_order(array)
    return array.transpose(axes) if axes else array


def memory_order(array: NDArray[Any]) -> tuple[int, ...]:
    """Return the axes from the widest step in memory to the narrowest.

    Empty where that is their own order.

    Example:
        >>> memory_order(np.zeros((2, 3), order="F")), memory_order(np.zeros((2, 3)))
        ((1, 0), ())
    """
    axes = tuple(range(array.ndim))
    ordered = tuple(sorted(axes, key=lambda axis: -abs(array.strides[axis])))
    return () if array.flags.c_contiguous or ordered == axes else ordered


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
    if dtype.kind == "V" and dtype.fields is None and dtype.itemsize <= 2:
        return (
            "; view them as what they are, as by x.view(ml_dtypes.bfloat16), or "
            "`numcheck fit --dtype bfloat16`"
        )
    if dtype.kind == "f":
        return "; convert it with .astype(np.float64)"
    if dtype.kind == "O":
        return "; convert it with .astype(float) if it holds numbers"
    return ""
