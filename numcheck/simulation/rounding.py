# SPDX-License-Identifier: Apache-2.0
"""`Rounding`: one rounding of a device, and the numbers that carry it out.

A float is its bits: the magnitude as an integer is an exponent field and a
significand. Rounding drops the lowest bits of the significand, more of them below the
format's smallest normal number; a carry runs into the exponent by itself. `FloatKernel`
says how many bits, and what becomes of what leaves the range; each framework does the
integer arithmetic itself.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from numcheck.errors import ArgumentError
from numcheck.formats import BlockFormat, Format, code_values, get, lookup, quantize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats import Extent, ScaleRule

__all__ = ["FloatKernel", "Ladder", "Rounding", "SharedScale", "Way"]

Mode = Literal["nearest_even", "nearest_away", "toward_zero"]
Beyond = Literal["ieee", "saturate", "satfinite"]
Way = Literal["none", "float", "listed", "power", "quotient", "numpy"]
"""How a rounding is carried out: not at all; by its bits; by a table of values; by
its bits under shared powers of two, or under shared float32 scales; by `quantize`."""

_STORED: Final = {32: 23, 64: 52}
_BIAS: Final = {32: 127, 64: 1023}


@dataclasses.dataclass(frozen=True, slots=True)
class Rounding:
    """What one rounding does, as `numcheck.quantize` with the same arguments does it.

    Attributes:
        format: name of a format; ``NAME/tensor``, ``NAME/32`` and ``NAME/128x128``
            give any scalar format a shared scale.
        mode: direction of rounding; None for the format's own.
        overflow: as in `quantize`.
        scale_rule: as in `quantize`.

    Example:
        >>> Rounding("mxfp8").way, Rounding("tf32").way, Rounding("hif8").way
        ('power', 'float', 'listed')
    """

    format: str
    mode: Mode | None = None
    overflow: Beyond = "ieee"
    scale_rule: ScaleRule | None = None

    @property
    def target(self) -> Format | BlockFormat:
        """The format it rounds to."""
        return resolve(self.format)

    @property
    def way(self) -> Way:
        """How float32 values are rounded."""
        return _way(self)

    def kernel(self, bits: Literal[32, 64] = 32) -> FloatKernel:
        """Return the numbers for values of 32 or 64 bits.

        Args:
            bits: width of the values; the quotients by a float32 scale have 64.
        """
        return _kernel(self, bits)

    def ladder(self) -> Ladder:
        """Return the table of a format that is given by its values."""
        return _ladder(self)

    def quantized(self, x: NDArray[np.float32], axis: int = -1) -> NDArray[np.float32]:
        """Return `x` rounded by `quantize` itself: the reference, and the last way."""
        target = self.target
        found = quantize(
            x,
            target,
            rounding=self.mode,
            overflow=self.overflow,
            axis=axis,
            scale_rule=self.scale_rule,
        )
        return np.asarray(found, np.float32)


@dataclasses.dataclass(frozen=True, slots=True)
class FloatKernel:
    """The numbers with which a magnitude's bits are rounded to a format.

    Attributes:
        stored: stored significand bits of the values.
        dropped: how many of them the format lacks.
        lowest: exponent field of the format's smallest normal number.
        largest: bits of its largest number.
        beyond: bits of what takes a larger one's place.
        infinity: bits of what takes the place of Inf.
        nan: bits of what takes the place of NaN.
        mode: direction of rounding.
        has_neg_zero: whether zero keeps its sign.
    """

    stored: int
    dropped: int
    lowest: int
    largest: int
    beyond: int
    infinity: int
    nan: int
    mode: Mode
    has_neg_zero: bool


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """A table of values, for formats that are given by one.

    Attributes:
        thresholds: float32 magnitudes from which on each next value is taken.
        values: one value more than thresholds; the last is what is beyond the range.
        infinity: what takes the place of Inf.
        has_neg_zero: whether zero keeps its sign.
    """

    thresholds: NDArray[np.float32]
    values: NDArray[np.float32]
    infinity: float
    has_neg_zero: bool


@dataclasses.dataclass(frozen=True, slots=True)
class SharedScale:
    """How the elements of a block lie, and what their scale can be.

    Attributes:
        tile: (rows, columns) for tiles; None when blocks run along one axis.
        size: elements along the axis; None for the whole tensor.
        emin: smallest exponent of a power of two.
        emax: largest.
        element_emax: exponent of the largest element.
        element_max: largest element.
    """

    tile: tuple[int, int] | None
    size: int | None
    emin: int
    emax: int
    element_emax: int
    element_max: float

    @classmethod
    def of(cls, target: BlockFormat) -> SharedScale:
        """Return what is known of a block format."""
        block = target.block
        return cls(
            tile=block if isinstance(block, tuple) else None,
            size=block if isinstance(block, int) else None,
            emin=target.scale.emin,
            emax=target.scale.emax,
            element_emax=target.element.emax,
            element_max=target.element_max,
        )


@functools.cache
def resolve(name: str) -> Format | BlockFormat:
    """Return the format of a name that may end in the extent of a shared scale.

    Raises:
        UnknownFormatError: no format has that name.
        ArgumentError: the extent is none.

    Example:
        >>> resolve("e4m3/128x128").block
        (128, 128)
    """
    plain, slash, extent = name.partition("/")
    if not slash:
        return lookup(name)
    element = get(plain)
    return BlockFormat(
        f"{element.name}/{extent}", element, get("float32"), _extent(extent, name)
    )


def _extent(text: str, name: str) -> int | tuple[int, int] | Extent:
    sides = text.split("x")
    if text == "tensor":
        return "tensor"
    if len(sides) <= 2 and all(s.isdecimal() and int(s) > 0 for s in sides):
        numbers = [int(s) for s in sides]
        if len(numbers) == 1 or numbers[0] == 1:
            return numbers[-1]
        return numbers[0], numbers[1]
    raise ArgumentError(
        f"{name!r}: after the slash come 'tensor', a block size such as 32, or a tile "
        "such as 128x128"
    )


@functools.cache
def _way(rounding: Rounding) -> Way:
    target = rounding.target
    if isinstance(target, Format):
        if target.name == "float32" and rounding.overflow == "ieee":
            return "none"
        if target.kind == "float" and _fits(target):
            return "float"
        is_listed = target.kind == "tapered" and rounding.mode != "toward_zero"
        return "listed" if is_listed else "numpy"
    element = target.element
    if (
        element.kind != "float"
        or target.micro_exponents
        or target.tensor_scale
        or target.block == "channel"
    ):
        return "numpy"
    if target.scale.kind == "scale" or rounding.scale_rule:
        is_floor = rounding.scale_rule in (None, "floor")
        return "power" if is_floor and target.scale.bits <= 32 else "numpy"
    return "quotient" if target.scale.name == "float32" else "numpy"


def _fits(fmt: Format) -> bool:
    return fmt.mantissa_bits < _STORED[32] and fmt.emin >= -126 and fmt.emax <= 127


@functools.cache
def _kernel(rounding: Rounding, bits: Literal[32, 64]) -> FloatKernel:
    target = rounding.target
    is_block = isinstance(target, BlockFormat)
    fmt = target.element if isinstance(target, BlockFormat) else target
    overflow: Beyond = "saturate" if is_block else rounding.overflow
    nowhere = np.inf if fmt.has_inf else np.nan if fmt.has_nan else fmt.max
    mode = rounding.mode or fmt.native_rounding
    beyond = fmt.max if overflow != "ieee" or mode == "toward_zero" else nowhere
    infinity = fmt.max if overflow == "saturate" else nowhere
    if mode not in ("nearest_even", "nearest_away", "toward_zero"):
        raise ArgumentError(f"no device rounds {mode}")

    def pattern(value: float) -> int:
        dtype, unsigned = (np.float32, np.uint32) if bits == 32 else (float, np.uint64)
        return int(np.array(value, dtype).view(unsigned)[()])

    return FloatKernel(
        stored=_STORED[bits],
        dropped=_STORED[bits] - fmt.mantissa_bits,
        lowest=fmt.emin + _BIAS[bits],
        largest=pattern(fmt.max),
        beyond=pattern(beyond),
        infinity=pattern(infinity),
        nan=pattern(np.nan),
        mode=mode,
        has_neg_zero=fmt.has_neg_zero,
    )


@functools.cache
def _ladder(rounding: Rounding) -> Ladder:
    target = rounding.target
    assert isinstance(target, Format)  # noqa: S101 - `way` is listed for no other
    values = code_values(target)
    steps = np.unique(values[np.isfinite(values) & ~np.signbit(values)])
    middles = np.append((steps[:-1] + steps[1:]) / 2, target.overflow_threshold)
    reached = rounding.quantized(middles.astype(np.float32)) > np.append(
        steps[:-1], steps[-1]
    )
    # Saturation gives the largest number on both sides of the last threshold.
    reached[-1] = True
    upward = np.nextafter(middles.astype(np.float32), np.float32(np.inf))
    ends = rounding.quantized(np.array([3e38, np.inf], np.float32))
    return Ladder(
        thresholds=np.where(reached, middles, upward).astype(np.float32),
        values=np.append(steps, ends[0]).astype(np.float32),
        infinity=float(ends[1]),
        has_neg_zero=target.has_neg_zero,
    )
