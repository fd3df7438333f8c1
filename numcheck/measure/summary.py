# SPDX-License-Identifier: Apache-2.0
"""What one array holds, as counts and extremes that merge.

A `Summary` is a monoid: `Summary.empty()` is its identity and `merge` its operation,
so micro-batches, shards, ranks and steps combine with one function. Counts, extremes
and the exponent histogram merge exactly and in any order; the float sums are float64
and merge up to rounding.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NonFiniteKind", "Summary"]

NonFiniteKind = Literal["nan", "+inf", "-inf", "inf"]
_N = TypeVar("_N", int, float)


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """Mergeable counts and extremes of one array. A field not measured is None.

    Attributes:
        n: number of elements.
        nan: number of NaN elements.
        pos_inf: number of +Inf elements.
        neg_inf: number of -Inf elements.
        zero: number of zeros, of either sign.
        subnormal: number of non-zero elements below the dtype's smallest normal.
        low: smallest value as a reduction gives it: NaN when any element is NaN,
            ±Inf when that is the smallest; None for an empty array.
        high: largest value, in the same sense.
        amax: largest finite magnitude; None when nothing is finite.
        amin: smallest non-zero finite magnitude; None when there is none.
        total: sum of the finite elements, in float64; Inf where it leaves its range.
        total_sq: sum of squares of the finite elements, as `total`.
        exponents: count of finite non-zero elements per binade, keyed by
            floor(log2(|x|)).
    """

    n: int
    nan: int | None = None
    pos_inf: int | None = None
    neg_inf: int | None = None
    zero: int | None = None
    subnormal: int | None = None
    low: float | None = None
    high: float | None = None
    amax: float | None = None
    amin: float | None = None
    total: float | None = None
    total_sq: float | None = None
    exponents: Mapping[int, int] | None = None

    @classmethod
    def empty(cls) -> Summary:
        """Return the summary of an array without elements, the identity of `merge`."""
        return cls(
            n=0, nan=0, pos_inf=0, neg_inf=0, zero=0, subnormal=0,
            total=0.0, total_sq=0.0, exponents={},
        )  # fmt: skip

    @property
    def has_nan(self) -> bool | None:
        """Whether an element is NaN; None when that was not measured."""
        if self.nan is not None:
            return self.nan > 0
        return None if self.low is None else math.isnan(self.low)

    @property
    def has_pos_inf(self) -> bool | None:
        """Whether an element is +Inf; None when not measured or hidden by a NaN."""
        return _counted_or_reached(self.pos_inf, self.high, math.inf)

    @property
    def has_neg_inf(self) -> bool | None:
        """Whether an element is -Inf; None when not measured or hidden by a NaN."""
        return _counted_or_reached(self.neg_inf, self.low, -math.inf)

    @property
    def has_inf(self) -> bool | None:
        """Whether an element is infinite; None when not measured."""
        if self.has_pos_inf or self.has_neg_inf:
            return True
        unknown = self.has_pos_inf is None or self.has_neg_inf is None
        return None if unknown else False

    @property
    def is_finite(self) -> bool | None:
        """Whether every element is finite; None when not measured.

        An empty array is finite.
        """
        if self.n == 0:
            return True
        if self.has_nan or self.has_inf:
            return False
        return None if self.has_nan is None or self.has_inf is None else True

    @property
    def kind(self) -> NonFiniteKind | None:
        """What the array holds that is not finite: NaN wins over Inf."""
        if self.has_nan:
            return "nan"
        if self.has_pos_inf and self.has_neg_inf:
            return "inf"
        if self.has_pos_inf:
            return "+inf"
        return "-inf" if self.has_neg_inf else None

    @property
    def finite(self) -> int | None:
        """Number of finite elements; None when the counts were not measured."""
        if self.nan is None or self.pos_inf is None or self.neg_inf is None:
            return None
        return self.n - self.nan - self.pos_inf - self.neg_inf

    @property
    def is_all_zero(self) -> bool | None:
        """Whether the array has elements and all are zero; None when not measured."""
        if self.zero is not None:
            return self.n > 0 and self.zero == self.n
        if self.low is None or self.high is None:
            return False if self.n == 0 else None
        return self.low == 0 and self.high == 0

    @property
    def mean(self) -> float | None:
        """Mean of the finite elements.

        None when there are none, not measured, or the sum left the range of float64.
        """
        if not self.finite or self.total is None or not math.isfinite(self.total):
            return None
        return self.total / self.finite

    @property
    def rms(self) -> float | None:
        """Root mean square of the finite elements.

        None when there are none, not measured, or squares left the range of float64;
        and where a damaged record counts fewer than none.
        """
        square = self._mean_square
        return None if square is None else math.sqrt(square)

    @property
    def std(self) -> float | None:
        """Population standard deviation of the finite elements, None as `rms` is."""
        mean, square = self.mean, self._mean_square
        if mean is None or square is None:
            return None
        return math.sqrt(max(0.0, square - mean * mean))

    @property
    def _mean_square(self) -> float | None:
        if not self.finite or self.total_sq is None or not math.isfinite(self.total_sq):
            return None
        square = self.total_sq / self.finite
        return square if square >= 0 else None

    def filled_from(self, other: Summary) -> Summary:
        """Return this summary, with what it did not measure taken from `other`.

        Both describe the same array: two looks at one value, not two values.
        """
        missing = {
            field.name: getattr(other, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) is None
        }
        return dataclasses.replace(self, **missing) if missing else self

    def merge(self, other: Summary) -> Summary:
        """Return the summary of both arrays' elements together.

        A field that either side did not measure stays unmeasured.
        """
        return Summary(
            n=self.n + other.n,
            nan=_added(self.nan, other.nan),
            pos_inf=_added(self.pos_inf, other.pos_inf),
            neg_inf=_added(self.neg_inf, other.neg_inf),
            zero=_added(self.zero, other.zero),
            subnormal=_added(self.subnormal, other.subnormal),
            low=_extreme(self, other, "low"),
            high=_extreme(self, other, "high"),
            amax=_extreme(self, other, "amax"),
            amin=_extreme(self, other, "amin"),
            total=_added(self.total, other.total),
            total_sq=_added(self.total_sq, other.total_sq),
            exponents=_merged_exponents(self.exponents, other.exponents),
        )

    def _repr_html_(self) -> str:
        """Return how a notebook shows it; the report is found only when asked."""
        notebook = importlib.import_module("numcheck.report.notebook")
        shown: str = notebook.summary_html(self)
        return shown


def _counted_or_reached(
    count: int | None, extreme: float | None, infinity: float
) -> bool | None:
    if count is not None:
        return count > 0
    if extreme is None or math.isnan(extreme):
        return None
    return extreme == infinity


def _added(a: _N | None, b: _N | None) -> _N | None:
    return None if a is None or b is None else a + b


def _extreme(
    a: Summary, b: Summary, field: Literal["low", "high", "amax", "amin"]
) -> float | None:
    x: float | None = getattr(a, field)
    y: float | None = getattr(b, field)
    if x is None or y is None:
        # Absent means "no such element" on an empty or measured side, and "not
        # measured" otherwise; only the first may adopt the other side's value.
        if x is None and _absent_by_measure(a, field):
            return y
        return x if y is None and _absent_by_measure(b, field) else None
    if math.isnan(x) or math.isnan(y):
        return math.nan
    return min(x, y) if field in ("low", "amin") else max(x, y)


def _absent_by_measure(s: Summary, field: str) -> bool:
    if s.n == 0:
        return True
    if field in ("low", "high"):
        return False
    if field == "amax":
        return s.finite == 0
    return s.zero is not None and s.finite is not None and s.zero == s.finite


def _merged_exponents(
    a: Mapping[int, int] | None, b: Mapping[int, int] | None
) -> Mapping[int, int] | None:
    if a is None or b is None:
        return None
    return {e: a.get(e, 0) + b.get(e, 0) for e in sorted({*a, *b})}
