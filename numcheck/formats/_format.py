# SPDX-License-Identifier: Apache-2.0
"""`Format`: a number format as a few free parameters, everything else derived."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
from typing import Literal, NamedTuple

__all__ = ["Format", "Kind", "Rounding", "Specials"]

Kind = Literal["float", "scale", "tapered", "integer"]
Specials = Literal["ieee", "fn", "fnuz", "extended", "finite"]
Rounding = Literal[
    "nearest_even",
    "nearest_away",
    "toward_zero",
    "up",
    "down",
    "to_odd",
    "stochastic",
]


class _Tapered(NamedTuple):
    """What follows from a table of values; found once for each table."""

    max: float
    smallest_normal: float
    smallest: float
    has_inf: bool
    has_nan: bool
    finite_values: int


@functools.lru_cache(maxsize=32)
def _tapered(values: tuple[float, ...]) -> _Tapered:
    finite = {v for v in values if math.isfinite(v)}
    largest = max(finite)
    starts = (v for v in finite if v > 0 and math.frexp(v)[0] == 0.5)
    return _Tapered(
        max=largest,
        smallest_normal=min(v for v in starts if 1.5 * v in finite or v == largest),
        smallest=min(v for v in finite if v > 0),
        has_inf=math.inf in values,
        has_nan=any(math.isnan(v) for v in values),
        finite_values=len(finite),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Format:
    """A format for single numbers; magnitudes are exact Python floats.

    Attributes:
        name: canonical name, such as ``float16`` or ``float8_e4m3fn``.
        bits: width of a code in bits.
        precision: significand bits, the implicit one counted. For a tapered format
            the largest it has anywhere; for an integer the bits of a magnitude.
        bias: exponent bias; 0 where the format has no exponent field.
        kind: ``float``; ``scale`` (a bare power of two without sign and zero);
            ``tapered`` (a table of values); ``integer`` (fixed point, two's
            complement).
        specials: which codes are not finite. ``ieee``: the highest exponent;
            ``fn``: all ones is NaN, no Inf; ``fnuz``: the code of -0 is NaN, no Inf;
            ``extended``: the code of -0 is NaN, the largest codes are Inf (IEEE P3109
            extended); ``finite``: none.
        signed: whether negative values exist.
        fraction_bits: bits after the binary point, for integers.
        values: the value of every code, for tapered formats.
        native_rounding: the rounding the format's own definition prescribes.

    Example:
        >>> from numcheck.formats import get
        >>> get("fp16").max, get("e4m3").overflow_threshold
        (65504.0, 464.0)
    """

    name: str
    bits: int
    precision: int
    bias: int = 0
    kind: Kind = "float"
    specials: Specials = "ieee"
    signed: bool = True
    fraction_bits: int = 0
    values: tuple[float, ...] = dataclasses.field(default=(), repr=False)
    native_rounding: Rounding = "nearest_even"

    @property
    def sign_bits(self) -> int:
        """1 when negative values exist, else 0."""
        return int(self.signed)

    @property
    def mantissa_bits(self) -> int:
        """Stored significand bits, without the implicit one."""
        return self.precision if self.kind == "integer" else self.precision - 1

    @property
    def exponent_bits(self) -> int:
        """Width of the exponent field; 0 for tapered formats and integers."""
        if self.kind in ("tapered", "integer"):
            return 0
        return self.bits - self.sign_bits - self.mantissa_bits

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal number."""
        if self.kind == "float":
            return 1 - self.bias
        return math.frexp(self.smallest_normal)[1] - 1

    @property
    def emax(self) -> int:
        """Exponent of the largest finite number."""
        return math.frexp(self.max)[1] - 1

    @property
    def has_inf(self) -> bool:
        """Whether the format can hold an infinity."""
        if self.kind == "tapered":
            return _tapered(self.values).has_inf
        return self.kind == "float" and self.specials in ("ieee", "extended")

    @property
    def has_nan(self) -> bool:
        """Whether the format can hold a NaN."""
        if self.kind == "tapered":
            return _tapered(self.values).has_nan
        return self.kind == "scale" or self.specials != "finite"

    @property
    def has_zero(self) -> bool:
        """Whether zero is a value of the format."""
        return 0.0 in self.values if self.kind == "tapered" else self.kind != "scale"

    @property
    def has_neg_zero(self) -> bool:
        """Whether -0 and +0 are different codes."""
        return self.kind == "float" and self.specials in ("ieee", "fn", "finite")

    @property
    def has_subnormals(self) -> bool:
        """Whether values exist between zero and the smallest normal number."""
        return self.kind == "float" or (
            self.kind == "tapered" and self.smallest_subnormal < self.smallest_normal
        )

    @property
    def max_code(self) -> int:
        """Code of the largest finite number."""
        half: int = 1 << (self.bits - self.sign_bits)
        if self.kind == "integer":
            return half - 1
        if self.kind == "tapered":
            return self.values.index(self.max)
        if self.kind == "scale" or self.specials in ("fn", "extended"):
            return half - 2
        if self.specials == "ieee":
            return half - 1 - (1 << self.mantissa_bits)
        return half - 1

    @property
    def max(self) -> float:
        """Largest finite number."""
        if self.kind == "tapered":
            return _tapered(self.values).max
        code = self.max_code
        if self.kind == "integer":
            return math.ldexp(code, -self.fraction_bits)
        if self.kind == "scale":
            return math.ldexp(1.0, code - self.bias)
        stored = self.mantissa_bits
        field, trailing = code >> stored, code & ((1 << stored) - 1)
        exponent = max(field, 1) - self.bias
        significand = trailing | (1 << stored if field else 0)
        return math.ldexp(significand, exponent - stored)

    @property
    def min(self) -> float:
        """Lowest finite number: -max, but one step lower for signed integers."""
        if not self.signed:
            return 0.0 if self.has_zero else self.smallest_normal
        if self.kind == "integer":
            return -math.ldexp(1.0, self.bits - 1 - self.fraction_bits)
        return -self.max

    @property
    def smallest_normal(self) -> float:
        """Smallest positive number with full precision.

        For a tapered format: the start of the lowest binade with more than one value.
        """
        if self.kind == "float":
            return math.ldexp(1.0, 1 - self.bias)
        if self.kind == "scale":
            return math.ldexp(1.0, -self.bias)
        if self.kind == "integer":
            return math.ldexp(1.0, -self.fraction_bits)
        return _tapered(self.values).smallest_normal

    @property
    def smallest_subnormal(self) -> float:
        """Smallest positive number; equal to `smallest_normal` without subnormals."""
        if self.kind == "float":
            return math.ldexp(1.0, 1 - self.bias - self.mantissa_bits)
        if self.kind == "tapered":
            return _tapered(self.values).smallest
        return self.smallest_normal

    @property
    def eps(self) -> float:
        """Distance from 1.0 to the next larger number (integers: one step)."""
        if self.kind == "integer":
            return math.ldexp(1.0, -self.fraction_bits)
        return math.ldexp(1.0, 1 - self.precision)

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding to nearest in the normal range."""
        return self.eps / 2

    @property
    def overflow_threshold(self) -> float:
        """Magnitude from which round-to-nearest leaves the range.

        Infinity for float64, whose threshold no float64 can reach. See
        `overflow_threshold_inclusive` for the threshold itself.
        """
        if self.kind == "integer":
            return self.max + self.eps / 2
        # The value the next code would have were it finite is one step further up.
        step_bits = 1 if self.kind == "tapered" else self.mantissa_bits
        half_step_exponent = self.emax - step_bits - 1
        half_steps = int(math.ldexp(self.max, -half_step_exponent)) + 1
        try:
            return math.ldexp(half_steps, half_step_exponent)
        except OverflowError:
            return math.inf

    @property
    def overflow_threshold_inclusive(self) -> bool:
        """Whether the overflow threshold itself overflows.

        A tie goes to the even significand, so it does exactly when `max` is odd;
        formats that round ties away always overflow.
        """
        if self.native_rounding == "nearest_away":
            return True
        return self.max_code % 2 == 1

    @property
    def underflow_threshold(self) -> float:
        """Magnitude below which round-to-nearest gives zero.

        0 for formats without zero, and for float64, where half of the smallest
        subnormal is no float64.
        """
        return self.smallest_subnormal / 2 if self.has_zero else 0.0

    @property
    def underflow_inclusive(self) -> bool:
        """Whether the underflow threshold itself becomes zero."""
        return self.native_rounding != "nearest_away"

    @property
    def dynamic_range_octaves(self) -> float:
        """log2(max / smallest_subnormal), in octaves."""
        return math.log2(self.max) - math.log2(self.smallest_subnormal)

    @property
    def dynamic_range_normal_octaves(self) -> float:
        """log2(max / smallest_normal), in octaves."""
        return math.log2(self.max) - math.log2(self.smallest_normal)

    @property
    def finite_values(self) -> int:
        """Number of different finite values, the two zeros counted once."""
        if self.kind == "tapered":
            return _tapered(self.values).finite_values
        if self.kind == "integer":
            return 1 << self.bits
        if not self.signed:
            return self.max_code + 1
        return 2 * self.max_code + 1

    def overflows(self, magnitude: float) -> bool:
        """Whether `magnitude` leaves the range when rounded to nearest.

        Example:
            >>> from numcheck.formats import get
            >>> get("float16").overflows(65519.99), get("float16").overflows(65520.0)
            (False, True)
        """
        threshold = self.overflow_threshold
        if self.overflow_threshold_inclusive:
            return magnitude >= threshold
        return magnitude > threshold

    def __str__(self) -> str:
        """Return the canonical name."""
        return self.name

    def _repr_html_(self) -> str:
        """Return how a notebook shows it; the report is found only when asked."""
        notebook = importlib.import_module("numcheck.report.notebook")
        shown: str = notebook.format_html(self)
        return shown
