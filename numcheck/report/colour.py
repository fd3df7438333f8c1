# SPDX-License-Identifier: Apache-2.0
"""The colour of a headroom: absolute, so that it means the same in every report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from numcheck.report.figures import headroom_bits

if TYPE_CHECKING:
    from numcheck.measure.summary import Summary

__all__ = ["INF_CODE", "NAN_CODE", "STOPS", "UNMEASURED_CODE", "ZERO_CODE"]
__all__ += ["code_of", "code_of_bits", "colour_of_code"]

# Bits of headroom and the colour there; in between it is interpolated. Red is at most
# what one more doubling overflows, blue is safe; readable with red-green blindness.
STOPS: Final[tuple[tuple[float, tuple[int, int, int]], ...]] = (
    (-4.0, (128, 0, 38)),
    (0.0, (215, 48, 39)),
    (2.0, (253, 174, 97)),
    (4.0, (255, 241, 168)),
    (8.0, (171, 217, 233)),
    (16.0, (69, 117, 180)),
    (31.0, (49, 54, 149)),
)

# A cell of the map is one signed byte, a quarter of a bit; the smaller, the worse, so
# that the worst of many cells is their minimum.
NAN_CODE: Final = -128
INF_CODE: Final = -127
_LOWEST: Final = -126
_HIGHEST: Final = 125
ZERO_CODE: Final = 126
UNMEASURED_CODE: Final = 127
_SPECIAL: Final = {
    NAN_CODE: "#d500f9",
    INF_CODE: "#7a00b8",
    ZERO_CODE: "#9e9e9e",
    UNMEASURED_CODE: "transparent",
}


def code_of(summary: Summary | None, dtype: str) -> int:
    """Return the cell of the map for what a site held.

    Example:
        >>> from numcheck.measure.summary import Summary
        >>> code_of(Summary(n=1, nan=0, amax=16376.0), "float16"), code_of(None, "")
        (8, 127)
    """
    if summary is None:
        return UNMEASURED_CODE
    if summary.has_nan:
        return NAN_CODE
    if summary.has_inf:
        return INF_CODE
    return code_of_bits(headroom_bits(summary, dtype))


def code_of_bits(bits: float | None) -> int:
    """Return the cell for bits of headroom, a quarter of a bit rounded down."""
    if bits is None:
        return UNMEASURED_CODE
    if math.isinf(bits):
        return ZERO_CODE
    return max(_LOWEST, min(_HIGHEST, math.floor(4 * bits)))


def colour_of_code(code: int) -> str:
    """Return a CSS colour.

    Example:
        >>> colour_of_code(0), colour_of_code(NAN_CODE)
        ('rgb(215 48 39)', '#d500f9')
    """
    if code in _SPECIAL:
        return _SPECIAL[code]
    bits = min(max(code / 4, STOPS[0][0]), STOPS[-1][0])
    at = next(i for i, (b, _) in enumerate(STOPS[1:]) if bits <= b)
    (low, p), (high, q) = STOPS[at], STOPS[at + 1]
    share = (bits - low) / (high - low)
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(p, q, strict=True))
    return f"rgb({red} {green} {blue})"
