# SPDX-License-Identifier: Apache-2.0
"""`compare`: how far one array is from another."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.errors import ArgumentError
from numcheck.formats._arrays import as_array, chunks, format_of, widened
from numcheck.formats._modes import checked
from numcheck.formats._registry import get
from numcheck.measure._norms import Norms, scale_for
from numcheck.measure._tolerances import tolerance_for
from numcheck.measure._ulp import ulp_distance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.formats._format import Format
    from numcheck.measure._tolerances import Convention

__all__ = ["Comparison", "compare"]

_CONVENTIONS: Final = ("torch", "jax", "msprobe")


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Error of an array b against a reference a.

    Errors are taken over the elements that are finite in both arrays; elements that
    are not are counted, never averaged in. With different shapes nothing is measured:
    the errors are None and `is_close` is False. Without an element that is finite in
    both, the errors are None too.

    Attributes:
        shape_a: shape of the reference.
        shape_b: shape of the other.
        dtype_a: dtype of the reference.
        dtype_b: dtype of the other.
        n: number of elements compared.
        finite: number of them that are finite in both.
        nan_mismatch: elements that are NaN in one array alone.
        inf_mismatch: elements that are Inf in one array and not the same Inf in the
            other, NaN apart.
        both_nan: elements that are NaN in both, which counts as equal.
        max_abs: largest |a - b|.
        max_rel: largest |a - b| / max(|a|, floor).
        rel_l2: ‖a - b‖₂ / ‖a‖₂.
        cosine: cosine of the angle between them; None when either is all zero.
        sqnr_db: 10·log10(Σa² / Σ(a - b)²) in decibels; +inf when equal.
        max_ulp: largest distance in values of `ulp_format`.
        mean_ulp: mean distance.
        ulp_format: the format in which distance was counted.
        rtol: relative tolerance.
        atol: absolute tolerance.
        outside: number of elements with |a - b| > atol + rtol·|a|.
        worst_index: place of `max_abs`.
        is_close: whether shapes agree, nothing is outside and no NaN or Inf differs.
    """

    shape_a: tuple[int, ...]
    shape_b: tuple[int, ...]
    dtype_a: str
    dtype_b: str
    ulp_format: str
    rtol: float
    atol: float
    n: int = 0
    finite: int = 0
    nan_mismatch: int = 0
    inf_mismatch: int = 0
    both_nan: int = 0
    max_abs: float | None = None
    max_rel: float | None = None
    rel_l2: float | None = None
    cosine: float | None = None
    sqnr_db: float | None = None
    max_ulp: float | None = None
    mean_ulp: float | None = None
    outside: int = 0
    worst_index: tuple[int, ...] | None = None
    is_close: bool = False

    @property
    def same_shape(self) -> bool:
        """Whether both have the same shape."""
        return self.shape_a == self.shape_b

    @property
    def same_dtype(self) -> bool:
        """Whether both have the same dtype."""
        return self.dtype_a == self.dtype_b

    @property
    def nonfinite_mismatch(self) -> int:
        """Number of elements whose NaN or Inf the other array does not share."""
        return self.nan_mismatch + self.inf_mismatch

    def __str__(self) -> str:
        """Return what came out, in a line or two.

        Example:
            >>> print(compare([1.0, 2.0], [1.0, 2.5], fmt="float16"))
            not close: of 2 elements 1 outside the tolerance (rtol 0.001, atol 1e-05)
            max_abs 0.5 at (1,), max_rel 0.25, rel_l2 0.2236, max_ulp 256 (float16)
            >>> print(compare([1.0, 2.0], 1.0))
            not compared: a has shape (2,), b has shape ()
        """
        if not self.same_shape:
            shapes = f"a has shape {self.shape_a}, b has shape {self.shape_b}"
            return f"not compared: {shapes}"
        verdict = "close" if self.is_close else "not close"
        told = (
            f"{verdict}: of {self.n} elements {self.outside} outside the tolerance "
            f"(rtol {self.rtol:.4g}, atol {self.atol:.4g})"
        )
        if self.nonfinite_mismatch:
            told += f", NaN or Inf differs in {self.nonfinite_mismatch}"
        if not self.finite:
            return (
                f"{told}; none is finite in both" if self.n else f"{told}; both empty"
            )
        errors = f"max_abs {self.max_abs:.4g} at {self.worst_index}, " + ", ".join(
            f"{name} {getattr(self, name):.4g}"
            for name in ("max_rel", "rel_l2", "max_ulp")
        )
        return f"{told}\n{errors} ({self.ulp_format})"


def compare(
    a: object,
    b: object,
    *,
    fmt: object = None,
    rtol: float | None = None,
    atol: float | None = None,
    tolerances: Convention = "torch",
    floor: float = 0.0,
) -> Comparison:
    """Return the error of `b` against the reference `a`.

    Args:
        a: the reference.
        b: an array of the same shape; its dtype may differ.
        fmt: the format in which distances are counted and whose tolerances apply; by
            default the less precise of the two dtypes.
        rtol: relative tolerance, instead of the convention's.
        atol: absolute tolerance, instead of the convention's.
        tolerances: whose defaults to use: ``torch``, ``jax`` or ``msprobe``.
        floor: smallest denominator of relative errors; by default the smallest normal
            number of `fmt`.

    Returns:
        A `Comparison`; with different shapes its errors are None.

    Raises:
        ArgumentError: a tolerance is negative or no number, or a convention unknown.
        ArgumentTypeError: an array is complex or holds no numbers.

    Example:
        >>> import numpy as np
        >>> c = compare(np.array([1.0, 2.0, np.nan]), np.array([1.0, 2.002, np.inf]))
        >>> c.nan_mismatch, c.finite, round(c.max_abs, 6), c.is_close
        (1, 2, 0.002, False)
    """
    checked(tolerances, _CONVENTIONS, "tolerances")
    left, right = as_array(a, "a"), as_array(b, "b")
    target = get(fmt) if fmt is not None else _less_precise(left, right)
    default = tolerance_for(target, tolerances)
    empty = Comparison(
        shape_a=left.shape,
        shape_b=right.shape,
        dtype_a=str(left.dtype),
        dtype_b=str(right.dtype),
        ulp_format=target.name,
        rtol=_tolerance(rtol, default.rtol, "rtol"),
        atol=_tolerance(atol, default.atol, "atol"),
    )
    if left.shape != right.shape:
        return empty
    run = _Run(empty, target, _tolerance(floor, 0.0, "floor") or target.smallest_normal)
    for x, y in zip(chunks(left), chunks(right), strict=True):
        run.add(widened(x), widened(y))
    scales = run.scales()
    return run.result(_norms_at(left, right, scales) if any(scales) else None)


def _norms_at(
    left: NDArray[Any], right: NDArray[Any], scales: tuple[int, int, int]
) -> Norms:
    norms = Norms(scales)
    for x, y in zip(chunks(left), chunks(right), strict=True):
        a, b = widened(x), widened(y)
        finite = np.isfinite(a) & np.isfinite(b)
        norms.add(a[finite], b[finite])
    return norms


def _tolerance(given: object, default: float, what: str) -> float:
    if given is None:
        return default
    if isinstance(given, (int, float, np.number)) and given >= 0:
        return float(given)
    raise ArgumentError(f"{what} must be a number of at least 0, got {given!r}")


def _less_precise(a: NDArray[Any], b: NDArray[Any]) -> Format:
    known = [f for f in (format_of(a), format_of(b)) if f is not None]
    floats = [f for f in known if f.kind != "integer"]
    if not floats:
        return get("float64")
    return min(floats, key=lambda f: f.precision)


class _Run:
    """Sums of a comparison, gathered piece by piece."""

    def __init__(self, empty: Comparison, fmt: Format, floor: float) -> None:
        self._empty = empty
        self._format = fmt
        self._floor = floor
        self._n = self._finite = self._both_nan = self._outside = 0
        self._nan_mismatch = self._inf_mismatch = 0
        self._ulps = self._max_a = self._max_b = 0.0
        self._norms = Norms()
        self._max_abs = self._max_rel = self._max_ulp = -1.0
        self._worst: int | None = None

    def add(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> None:
        nan_a, nan_b = np.isnan(a), np.isnan(b)
        either_inf = np.isinf(a) | np.isinf(b)
        finite = np.isfinite(a) & np.isfinite(b)
        different_inf = either_inf & (a != b) & ~nan_a & ~nan_b
        self._nan_mismatch += int(np.count_nonzero(nan_a != nan_b))
        self._inf_mismatch += int(np.count_nonzero(different_inf))
        self._both_nan += int(np.count_nonzero(nan_a & nan_b))
        if finite.any():
            place = np.flatnonzero(finite)
            self._add_finite(a[finite], b[finite], place + self._n)
        self._n += a.size

    def _add_finite(
        self, a: NDArray[np.float64], b: NDArray[np.float64], place: NDArray[np.intp]
    ) -> None:
        self._finite += a.size
        self._norms.add(a, b)
        size = np.abs(a)
        self._max_a = max(self._max_a, float(size.max()))
        self._max_b = max(self._max_b, float(np.abs(b).max()))
        with np.errstate(over="ignore"):
            error = np.abs(a - b)
            relative = error / np.maximum(size, self._floor)
            limit = self._empty.atol + self._empty.rtol * size
        self._outside += int(np.count_nonzero(error > limit))
        worst = int(error.argmax())
        if error[worst] > self._max_abs:
            self._max_abs, self._worst = float(error[worst]), int(place[worst])
        self._max_rel = max(self._max_rel, float(relative.max()))
        ulps = ulp_distance(a, b, self._format)
        self._max_ulp = max(self._max_ulp, float(ulps.max()))
        self._ulps += float(ulps.sum())

    def scales(self) -> tuple[int, int, int]:
        """Return powers of two under which the lengths can be measured."""
        largest = self._max_a, self._max_b, max(self._max_abs, 0.0)
        of_a, of_b, of_both = map(scale_for, largest)
        return of_a, of_b, of_both

    def result(self, norms: Norms | None = None) -> Comparison:
        norms = norms or self._norms
        counted = dataclasses.replace(
            self._empty,
            n=self._n,
            finite=self._finite,
            nan_mismatch=self._nan_mismatch,
            inf_mismatch=self._inf_mismatch,
            both_nan=self._both_nan,
            outside=self._outside,
            is_close=not (self._outside or self._nan_mismatch or self._inf_mismatch),
        )
        if not counted.finite:
            return counted
        shape = counted.shape_a
        index = np.unravel_index(self._worst or 0, shape) if shape else ()
        return dataclasses.replace(
            counted,
            max_abs=self._max_abs,
            max_rel=self._max_rel,
            max_ulp=self._max_ulp,
            mean_ulp=self._ulps / counted.finite,
            rel_l2=norms.rel_l2(),
            cosine=norms.cosine(),
            sqnr_db=norms.sqnr_db(),
            worst_index=tuple(int(i) for i in index),
        )
