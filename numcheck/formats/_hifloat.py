# SPDX-License-Identifier: Apache-2.0
"""The value of every HiFloat8 code.

HiFloat8 is tapered: a prefix code (the dot field) says how many exponent bits follow,
so that numbers near one keep three significand bits and the extremes keep none.
Layout after the sign: dot ``11``, ``10``, ``01``, ``001``, ``0001`` for 4, 3, 2, 1, 0
exponent bits, ``0000`` for the denormal powers of two; the exponent is a sign and a
magnitude whose leading one is implied; the rest is the significand.
"""

from __future__ import annotations

import math

__all__ = ["hifloat8_values"]

_DOT_FIELDS = (("11", 4), ("10", 3), ("01", 2), ("001", 1), ("0001", 0))
_NAN_CODE = 0x80
_INF_MAGNITUDE = 0x6F
_DENORMAL_BIAS = 23


def hifloat8_values() -> tuple[float, ...]:
    """Return the 256 values of HiFloat8 in the order of their codes.

    Example:
        >>> values = hifloat8_values()
        >>> values[0x08], values[0x6E], values[0x01] == 2.0**-22
        (1.0, 32768.0, True)
    """
    magnitudes = [_magnitude(code) for code in range(128)]
    values = magnitudes + [-v for v in magnitudes]
    values[_NAN_CODE] = math.nan
    return tuple(values)


def _magnitude(code: int) -> float:
    if code == _INF_MAGNITUDE:
        return math.inf
    text = f"{code:07b}"
    for dot, width in _DOT_FIELDS:
        if text.startswith(dot):
            body = text[len(dot) :]
            return _normal(body[:width], body[width:])
    return math.ldexp(1.0, code - _DENORMAL_BIAS) if code else 0.0


def _normal(exponent_field: str, fraction_field: str) -> float:
    exponent = 0
    if exponent_field:
        exponent = int("1" + exponent_field[1:], 2)
        if exponent_field[0] == "1":
            exponent = -exponent
    significand = int("1" + fraction_field, 2)
    return math.ldexp(significand, exponent - len(fraction_field))
