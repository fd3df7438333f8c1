# SPDX-License-Identifier: Apache-2.0
"""Rounding by looking up the answer.

A float32 cut to its upper 16 bits with rounding to odd keeps 8 significand bits, the
last of which says whether anything was lost. That is two more than any format of up to
6 significand bits needs, so the second rounding, whatever its mode, gives what
one would (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
Hence 65536 answers cover every float32. Rounding toward zero, and to nearest with ties
away from zero, need no such bit: what was lost cannot take them across a boundary.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from numcheck.formats._format import Format
    from numcheck.formats._modes import Modes

    Floats = NDArray[np.floating[Any]]

__all__ = ["MIN_TABLED", "TableRounder", "can_table"]

# Filling a table rounds 65536 numbers exactly, which pays from here on.
MIN_TABLED: Final = 1 << 18
_KEPT_PRECISION: Final = 6


def can_table(fmt: Format, modes: Modes) -> bool:
    """Whether a table of the upper halves of float32 answers for this conversion.

    Example:
        >>> from numcheck.formats import get
        >>> from numcheck.formats._modes import Modes
        >>> can_table(get("hif8"), Modes("up")), can_table(get("bf16"), Modes("up"))
        (True, False)
    """
    lowest = -126 if fmt.kind == "float" else -127
    return (
        fmt.precision <= _KEPT_PRECISION
        and modes.rounding != "stochastic"
        # What wraps around depends on every bit above the range.
        and modes.overflow != "wrap"
        and fmt.emin >= lowest
    )


class TableRounder:
    """Rounds contiguous float32 pieces.

    Args:
        fmt: a format for which `can_table` holds.
        modes: any but stochastic rounding.
        room: largest number of elements of a piece.
        round_once: rounds an array exactly; it fills the table.
    """

    def __init__(
        self,
        fmt: Format,
        modes: Modes,
        room: int,
        round_once: Callable[[Floats, Format, Modes], Floats],
    ) -> None:
        self._table = _table(fmt, modes, round_once)
        self._bits = np.empty(room, np.uint32)
        self._sticky = modes.rounding not in ("toward_zero", "nearest_away")

    def __call__(self, x: Floats, out: Floats) -> None:
        """Round `x` into `out`."""
        source, bits = x.view(np.uint32), self._bits[: x.size]
        # Cutting a NaN could make it Inf; a maximum is NaN where any element is.
        if self._sticky or np.isnan(np.maximum.reduce(x)):
            # A non-zero lower half carries into bit 16, the lowest that is kept.
            np.bitwise_and(source, np.uint32(0xFFFF), out=bits)
            np.add(bits, np.uint32(0xFFFF), out=bits)
            np.bitwise_or(bits, source, out=bits)
            np.right_shift(bits, np.uint32(16), out=bits)
        else:
            np.right_shift(source, np.uint32(16), out=bits)
        np.take(self._table, bits, out=out, mode="wrap")


@functools.lru_cache(maxsize=32)
def _table(
    fmt: Format,
    modes: Modes,
    round_once: Callable[[Floats, Format, Modes], Floats],
) -> NDArray[np.float32]:
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    return np.asarray(round_once(upper.view(np.float32), fmt, modes), np.float32)
