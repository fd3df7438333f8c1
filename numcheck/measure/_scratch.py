# SPDX-License-Identifier: Apache-2.0
"""Buffers that one pass over an array works in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["Scratch"]

_LINE: Final = 64
# Below this, an allocation costs next to nothing.
_SMALL: Final = 1 << 17
# From here on numpy asks for huge pages, and the allocator keeps what is freed, so
# that the next pass finds its memory in place instead of a page fault for each 4 KiB.
_LARGE: Final = 1 << 22


class Scratch:
    """Memory allocated once and handed out in aligned parts.

    Args:
        nbytes: how much will be asked for.

    Example:
        >>> scratch = Scratch(1000)
        >>> scratch.take(10, np.float64).shape, scratch.take(99, bool).dtype
        ((10,), dtype('bool'))
    """

    def __init__(self, nbytes: int) -> None:
        size = nbytes if nbytes < _SMALL else max(nbytes, _LARGE)
        self._memory = np.empty(size + _LINE, np.uint8)
        self._taken = -self._memory.ctypes.data % _LINE

    def take(self, size: int, dtype: DTypeLike) -> NDArray[Any]:
        """Return an array of `size` elements of any value, on its own cache lines."""
        nbytes = size * np.dtype(dtype).itemsize
        end = self._taken + nbytes
        if end > self._memory.size:
            return np.empty(size, dtype)
        part = self._memory[self._taken : end]
        self._taken = end + -end % _LINE
        return part.view(dtype)
