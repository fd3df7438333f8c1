# SPDX-License-Identifier: Apache-2.0
"""`fit`: which format suits an array."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from numcheck.formats._arrays import (
    PIECE,
    as_array,
    chunks,
    format_of,
    in_memory_order,
    widened,
)
from numcheck.formats._registry import get
from numcheck.measure._code_histogram import CodeHistogram
from numcheck.measure._share_bounds import share_bounds
from numcheck.measure._summarize import summarize
from numcheck.measure._tally import ElementTally, Room, WeightedTally, can_tally
from numcheck.measure.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from numcheck.formats._format import Format
    from numcheck.measure._shares import Shares

    Wanted = Sequence[tuple[Format, int]]
    Count = Callable[[Wanted], list[Shares]]
    Progress = Callable[[int], None]

__all__ = ["DEFAULT_FORMATS", "Fit", "FormatFit", "Verdict", "fit"]

DEFAULT_FORMATS: Final = (
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "hifloat8",
    "int8",
)
Verdict = Literal["fits", "fits_scaled", "loses"]
Basis = Literal["elements", "codes", "binades", "extremes"]


@dataclasses.dataclass(frozen=True, slots=True)
class FormatFit:
    """How one format suits an array.

    Attributes:
        format: the format.
        as_is: what it does to the array itself.
        scale_log2: exponent of the best power-of-two scale: 0 when the array loses
            nothing but ordinary rounding, else the largest that avoids overflow.
        scaled: what it does to the array times 2**scale_log2.
        verdict: ``fits`` as it is, ``fits_scaled`` with that scale, or ``loses``.
    """

    format: Format
    as_is: Shares
    scale_log2: int
    scaled: Shares
    verdict: Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class Fit:
    """How several formats suit an array.

    Attributes:
        summary: of the array.
        basis: what the shares were computed from: ``elements`` or ``codes`` (exact),
            ``binades`` or ``extremes`` (bounds).
        formats: one entry a format, in the order asked for.
        recommended: the narrowest format that fits as it is, the more precise of
            equals; None when none does, and where no element is finite and non-zero,
            for every format holds nothing and zeros.
        recommended_scaled: the same among those that fit with a scale, when it is
            narrower or nothing fits without.
    """

    summary: Summary
    basis: Basis
    formats: tuple[FormatFit, ...]
    recommended: Format | None
    recommended_scaled: FormatFit | None

    @property
    def is_exact(self) -> bool:
        """Whether the shares are exact rather than bounds."""
        return self.basis in ("elements", "codes")


def fit(
    x: object,
    formats: object = DEFAULT_FORMATS,
    *,
    max_flushed: float = 1e-3,
    min_sqnr_db: float = 15.0,
    progress: Progress | None = None,
) -> Fit:
    """Return what each format would do to an array, and which one to take.

    Args:
        x: an array or a `CodeHistogram`, for which every share is exact; or a
            `Summary`, for which shares are bounds.
        formats: scalar formats, or one, by whatever `numcheck.formats.get` takes.
        max_flushed: largest share of non-zero elements that may become zero in a
            format that is said to fit.
        min_sqnr_db: smallest signal to quantisation noise ratio of one that fits.
        progress: called with the number of elements of each finished piece; all
            passes together see each element twice.

    Returns:
        A `Fit`. Shares are of the finite non-zero elements; NaN and Inf are counted
        in its summary alone. Without such elements every share is 0, every format
        fits and none is recommended.

    Raises:
        UnknownFormatError: a name is that of no scalar format.
        ArgumentError: a `Summary` holds no extremes.
        ArgumentTypeError: `x` holds no real numbers.

    Example:
        >>> import numpy as np
        >>> found = fit(np.array([3e5, 1.0, -2.0]), ["fp16", "bf16"])
        >>> found.formats[0].verdict, found.formats[0].scale_log2
        ('fits_scaled', -3)
        >>> found.recommended.name
        'bfloat16'
    """
    if isinstance(formats, str) or not isinstance(formats, Iterable):
        formats = [formats]
    targets = [get(fmt) for fmt in formats]
    summary, basis, count = _source(x, progress)
    plain = count([(t, 0) for t in targets])
    scales = [
        _best_scale(summary, t, shares)
        for t, shares in zip(targets, plain, strict=True)
    ]
    scaled = list(plain)
    moved = [i for i, scale in enumerate(scales) if scale]
    again = count([(targets[i], scales[i]) for i in moved]) if moved else []
    for i, shares in zip(moved, again, strict=True):
        scaled[i] = shares
    rows = tuple(
        FormatFit(t, p, s, q, _verdict(p, q, max_flushed, min_sqnr_db))
        for t, p, s, q in zip(targets, plain, scales, scaled, strict=True)
    )
    chosen = _recommended(rows) if summary.amax else (None, None)
    return Fit(summary, basis, rows, *chosen)


def _source(x: object, progress: Progress | None) -> tuple[Summary, Basis, Count]:
    """Return what is known of `x`, how well, and what finds shares in it."""
    if isinstance(x, Summary):
        basis: Basis = "extremes" if x.exponents is None else "binades"
        return x, basis, lambda wanted: [share_bounds(x, f, s) for f, s in wanted]
    if isinstance(x, CodeHistogram):
        return x.summary(), "codes", lambda wanted: _count_codes(x, wanted)
    array = in_memory_order(as_array(x, "x"))
    own = format_of(array)
    if own is not None and own.bits <= 16:
        codes = CodeHistogram.of(array, progress=progress)
        return codes.summary(), "codes", lambda wanted: _count_codes(codes, wanted)
    summary = summarize(array, histogram=True, progress=progress)

    def count(wanted: Wanted) -> list[Shares]:
        return _count_elements(array, summary, wanted, progress)

    return summary, "elements", count


def _count_codes(codes: CodeHistogram, wanted: Wanted) -> list[Shares]:
    tallies = [WeightedTally(fmt, scale) for fmt, scale in wanted]
    for values, weights in codes.weighted_values():
        for tally in tallies:
            tally.add(values, weights)
    return [tally.shares() for tally in tallies]


def _count_elements(
    array: NDArray[Any], summary: Summary, wanted: Wanted, progress: Progress | None
) -> list[Shares]:
    """Return shares counted in float32 where that is exact, else in float64."""
    size = min(array.size, PIECE)
    wide = Room(np.dtype(np.float64), size)
    narrow = Room(array.dtype, size) if array.dtype == np.float32 else wide
    rooms = [
        narrow if can_tally(summary, narrow.dtype, *one) else wide for one in wanted
    ]
    tallies = [
        ElementTally(*one, room, array.size)
        for one, room in zip(wanted, rooms, strict=True)
    ]
    for piece in chunks(array, PIECE):
        own = widened(piece, narrow.dtype)
        if summary.finite != summary.n:
            own = own[np.isfinite(own)]
        widest = widened(own) if wide in rooms else own
        for tally, room in zip(tallies, rooms, strict=True):
            tally.add(own if room is narrow else widest)
        if progress is not None:
            progress(piece.size)
    return [tally.shares() for tally in tallies]


def _best_scale(summary: Summary, fmt: Format, shares: Shares) -> int:
    loses = max(
        share.high for share in (shares.overflow, shares.flushed, shares.subnormal)
    )
    if not summary.amax or (loses == 0 and fmt.kind != "integer"):
        return 0
    exponent = math.floor(math.log2(fmt.max) - math.log2(summary.amax))
    # One step further where the largest element still rounds to the largest number.
    further = math.frexp(summary.amax)[1] + exponent + 1
    fits = further <= 1024 and not fmt.overflows(math.ldexp(summary.amax, exponent + 1))
    return exponent + fits


def _verdict(
    as_is: Shares, scaled: Shares, max_flushed: float, min_sqnr_db: float
) -> Verdict:
    def good(shares: Shares) -> bool:
        return (
            shares.overflow.high == 0
            and shares.flushed.high <= max_flushed
            and shares.sqnr_db.high >= min_sqnr_db
        )

    if good(as_is):
        return "fits"
    return "fits_scaled" if good(scaled) else "loses"


def _recommended(
    rows: Sequence[FormatFit],
) -> tuple[Format | None, FormatFit | None]:
    def narrowest(verdicts: tuple[Verdict, ...]) -> FormatFit | None:
        fitting = [row for row in rows if row.verdict in verdicts]
        return min(fitting, key=_width_then_precision, default=None)

    plain = narrowest(("fits",))
    scaled = narrowest(("fits", "fits_scaled"))
    if scaled is plain or (
        plain and scaled and scaled.format.bits >= plain.format.bits
    ):
        scaled = None
    return plain.format if plain else None, scaled


def _width_then_precision(row: FormatFit) -> tuple[int, float]:
    return row.format.bits, -row.scaled.sqnr_db.high
