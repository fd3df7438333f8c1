# SPDX-License-Identifier: Apache-2.0
"""Which of the rounding methods serves a conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.errors import ArgumentError
from numcheck.formats._arrays import CHUNK, PIECE
from numcheck.formats._exact import round_exactly
from numcheck.formats._fast import (
    CarryRounder,
    CastRounder,
    SpacingRounder,
    can_carry,
    can_space,
)
from numcheck.formats._integers import FixedRounder, can_fix, round_to_fixed
from numcheck.formats._listed import round_to_listed
from numcheck.formats._tables import MIN_TABLED, TableRounder, can_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from numcheck.formats._format import Format
    from numcheck.formats._modes import Modes

    Floats = NDArray[np.floating[Any]]
    Rounder = Callable[[Floats, Floats], None]

__all__ = ["generator", "round_once", "rounder"]


def round_once(
    x: Floats, fmt: Format, modes: Modes, rng: np.random.Generator | None = None
) -> Floats:
    """Return `x` rounded by the method that is exact for the format's kind.

    Example:
        >>> from numcheck.formats import get
        >>> from numcheck.formats._modes import Modes
        >>> round_once(np.array([2.5]), get("int8"), Modes()).item()
        2.0
    """
    if fmt.kind == "integer":
        return round_to_fixed(x, fmt, modes, rng)
    if fmt.kind == "float":
        return round_exactly(x, fmt, modes, rng)
    return round_to_listed(x, fmt, modes, rng)


def generator(modes: Modes, seed: int | None) -> np.random.Generator | None:
    """Return a source of random numbers where the rounding needs one.

    Raises:
        ArgumentError: numpy takes no such seed.

    Example:
        >>> from numcheck.formats._modes import Modes
        >>> generator(Modes("up"), 0) is None, generator(Modes("stochastic"), 0) is None
        (True, False)
    """
    if modes.rounding != "stochastic":
        return None
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"seed must be a whole number of at least 0 or None, got {seed!r}"
        ) from error


def rounder(
    dtype: np.dtype[Any],
    fmt: Format,
    modes: Modes,
    size: int,
    rng: np.random.Generator | None = None,
) -> Rounder:
    """Return a function that rounds one contiguous piece into another.

    Args:
        dtype: float32 or float64, of both pieces.
        fmt: the target format.
        modes: rounding, overflow and subnormal mode.
        size: number of elements to come, which decides whether a table pays; they
            come in pieces of up to `PIECE`.
        rng: source of random numbers for stochastic rounding.

    Example:
        >>> from numcheck.formats import get
        >>> from numcheck.formats._modes import Modes
        >>> out = np.empty(2, np.float32)
        >>> convert = rounder(out.dtype, get("e4m3"), Modes(), out.size)
        >>> convert(np.array([0.3, -1.06], np.float32), out)
        >>> out.tolist()
        [0.3125, -1.0]
    """

    def again(x: Floats) -> Floats:
        return round_once(x, fmt, modes, rng)

    def exact(x: Floats, out: Floats) -> None:
        for start in range(0, x.size, CHUNK):
            out[start : start + CHUNK] = again(x[start : start + CHUNK])

    room = min(size, PIECE)
    if modes.rounding == "nearest_even" and not modes.flush:
        if can_space(fmt, dtype):
            return SpacingRounder(dtype, fmt, room, again)
        if fmt.name == "bfloat16" and dtype == np.float32:
            return CastRounder(room, None if modes.overflow == "ieee" else again)
        if can_carry(fmt, dtype):
            return CarryRounder(dtype, fmt, room, again)
        if can_fix(fmt, dtype) and modes.overflow != "wrap":
            return FixedRounder(fmt)
    if dtype == np.float32 and size >= MIN_TABLED and can_table(fmt, modes):
        return TableRounder(fmt, modes, room, round_once)
    return exact
