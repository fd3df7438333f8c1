# SPDX-License-Identifier: Apache-2.0
"""What happens to one value in one format."""

from __future__ import annotations

import dataclasses
import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal

from numcheck.errors import ArgumentError
from numcheck.formats import encode, get, quantize
from numcheck.measure import margins

if TYPE_CHECKING:
    from numcheck.formats import Format

__all__ = ["Fate", "Outcome", "fate_of", "parse_value"]

_LARGEST: Final = "1.7976931348623157e308"
# A digit other than zero, before any exponent.
_SIGNIFICANT: Final = re.compile(r"[+-]?(0x[0.]*[1-9a-f]|[0.]*[1-9])")

Outcome = Literal[
    "exact",
    "rounded",
    "subnormal",
    "flushed",
    "lifted",
    "clipped",
    "overflow",
    "absent",
    "nan",
    "inf",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Fate:
    """One value after rounding to nearest in one format.

    Attributes:
        format: name of the format.
        value: what was asked, as a float64.
        result: what it becomes; a saturating cast gives `saturated` instead.
        saturated: what it becomes where overflow gives the largest number.
        outcome: ``exact``; ``rounded``; ``subnormal`` (rounded, with fewer bits);
            ``flushed`` to zero; ``lifted`` to the smallest number of a format without
            zero; ``clipped`` (beyond the largest number, rounded to it);
            ``overflow``; ``absent`` (zero and negative numbers, where a format has
            none); or ``nan`` and ``inf``, which went in as such.
        code: bit pattern of the result; None where the format has none for it.
        relative_error: |result - value| / |value|; None where it has no meaning.
        below: largest value of the format not above `value`.
        above: smallest value of the format not below it.
        headroom: bits to the largest number.
        overflow_margin: bits to overflow.
        underflow_margin: bits to the smallest normal number.
        flush_margin: bits to becoming zero.
    """

    format: str
    value: float
    result: float
    saturated: float
    outcome: Outcome
    code: str | None
    relative_error: float | None
    below: float
    above: float
    headroom: float | None
    overflow_margin: float | None
    underflow_margin: float | None
    flush_margin: float | None


def fate_of(value: float, fmt: object) -> Fate:
    """Return what rounding to nearest makes of a value.

    Example:
        >>> fate = fate_of(70000.0, "fp16")
        >>> fate.outcome, fate.result, fate.saturated, fate.code
        ('overflow', inf, 65504.0, '0x7c00')
    """
    target = get(fmt)
    result = quantize(value, target).item()
    distance = margins(value, target)
    return Fate(
        format=target.name,
        value=value,
        result=result,
        saturated=quantize(value, target, overflow="saturate").item(),
        outcome=_outcome(value, result, target, leaves=bool(distance.overflows)),
        code=_code(value, target),
        relative_error=_relative_error(value, result),
        below=quantize(value, target, rounding="down", overflow="saturate").item(),
        above=quantize(value, target, rounding="up", overflow="saturate").item(),
        headroom=distance.headroom,
        overflow_margin=distance.overflow_margin,
        underflow_margin=distance.underflow_margin,
        flush_margin=distance.flush_margin,
    )


def parse_value(written: str) -> float:
    """Return the number that a person wrote: decimal, hexadecimal, a/b or a^b.

    Raises:
        ArgumentError: it is none of these, or none that a float64 can be near.

    Example:
        >>> parse_value("1e-8"), parse_value("2^-24") == 2**-24, parse_value("0x1p4")
        (1e-08, True, 16.0)
    """
    tidy = written.strip().replace("\u2212", "-").replace("_", "").replace("**", "^")
    try:
        value = _value(tidy)
    except OverflowError:
        value = math.inf
    except (ValueError, ZeroDivisionError) as error:
        raise ArgumentError(
            f"{written!r} is no number; write 70000, 1e-8, 1/3, 2^-24, 0x1p-24, inf "
            "or nan"
        ) from error
    if math.isinf(value) and "inf" not in tidy.lower():
        raise ArgumentError(f"{written!r} is beyond the largest float64, {_LARGEST}")
    if value == 0 and _SIGNIFICANT.match(tidy.lower()):
        raise ArgumentError(f"{written!r} is below the smallest float64, 4.94e-324")
    return value


def _value(tidy: str) -> float:
    if "^" in tidy:
        base, _, exponent = tidy.partition("^")
        sign = -1.0 if base.startswith("-") else 1.0
        return sign * float(base.lstrip("+-")) ** int(exponent.strip("()"))
    if "/" in tidy:
        above, below = tidy.split("/")
        return float(Fraction(above) / Fraction(below))
    return float.fromhex(tidy) if "0x" in tidy.lower() else float(tidy)


def _outcome(value: float, result: float, fmt: Format, *, leaves: bool) -> Outcome:
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf"
    if not fmt.has_zero and value <= 0:
        return "absent"
    if leaves:
        return "overflow"
    if fmt.min <= value <= fmt.max:
        return _within(value, result, fmt)
    if result == 0:
        return "flushed"
    return "lifted" if 0 < value < fmt.smallest_normal else "clipped"


def _within(value: float, result: float, fmt: Format) -> Outcome:
    if result == value:
        return "exact"
    if result == 0:
        return "flushed"
    return "subnormal" if abs(result) < fmt.smallest_normal else "rounded"


def _relative_error(value: float, result: float) -> float | None:
    if not (math.isfinite(value) and math.isfinite(result)) or value == 0:
        return None
    return abs(result - value) / abs(value)


def _code(value: float, fmt: Format) -> str | None:
    if fmt.kind != "integer" and not fmt.has_nan and math.isnan(value):
        return None
    code = int(encode(value, fmt).item()) & ((1 << fmt.bits) - 1)
    return f"0x{code:0{-(-fmt.bits // 4)}x}"
