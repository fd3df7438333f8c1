# SPDX-License-Identifier: Apache-2.0
"""Which of the rounding methods serves a conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numcheck.formats._exact import round_exactly
from numcheck.formats._integers import round_to_fixed
from numcheck.formats._listed import round_to_listed

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from numcheck.formats._format import Format
    from numcheck.formats._modes import Modes

    Floats = NDArray[np.floating[Any]]
    Rounder = Callable[[Floats, Floats], None]

__all__ = ["round_once", "rounder"]


def round_once(
    x: Floats, fmt: Format, modes: Modes, rng: np.random.Generator | None = None
) -> Floats:
    """Return `x` rounded by the method that is exact for the format's kind."""
    if fmt.kind == "integer":
        return round_to_fixed(x, fmt, modes, rng)
    if fmt.kind == "float":
        return round_exactly(x, fmt, modes, rng)
    return round_to_listed(x, fmt, modes, rng)


def rounder(
    dtype: np.dtype[Any],
    fmt: Format,
    modes: Modes,
    size: int,
    rng: np.random.Generator | None,
) -> Rounder:
    """Return a function that rounds one contiguous piece into another.

    Args:
        dtype: float32 or float64, of both pieces.
        fmt: the target format.
        modes: rounding, overflow and subnormal mode.
        size: number of elements to come, which decides whether a table pays.
        rng: source of random numbers for stochastic rounding.
    """

    def exact(x: Floats, out: Floats) -> None:
        out[:] = round_once(x, fmt, modes, rng)

    return exact
