# SPDX-License-Identifier: Apache-2.0
"""fit counts exactly what a format would do, or bounds it and says so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcheck.errors import ArgumentError
from numcheck.formats import get, names, quantize
from numcheck.measure import (
    DEFAULT_FORMATS,
    CodeHistogram,
    Summary,
    fit,
    share_bounds,
    summarize,
)

if TYPE_CHECKING:
    from numcheck.measure import (
        Shares,
    )

TARGETS = [n for n in names() if n not in ("float8_e8m0fnu", "float64")]
KEYS = ("overflow", "clipped", "flushed", "subnormal")


def spread(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(count) * np.exp2(rng.integers(-30, 18, count))
    x[:10] = [0, np.nan, np.inf, -np.inf, 464.0, 464.1, 65520.0, 65519.9, 2.0**-10, 0]
    return x.astype(np.float32)


def counted(x: np.ndarray, name: str) -> dict[str, float]:
    """Returns the shares by their definitions, one expression each."""
    fmt = get(name)
    x = x.astype(np.float64)
    x = x[np.isfinite(x) & (x != 0)]
    y = quantize(x, name, overflow="saturate")
    if fmt.has_inf or fmt.has_nan:
        overflow = ~np.isfinite(quantize(x, name))
    elif fmt.kind == "integer":
        wide = np.rint(x)
        overflow = (wide > fmt.max) | (wide < fmt.min)
    else:
        overflow = np.abs(x) >= fmt.overflow_threshold
    size = np.abs(y)
    small = (size > 0) & (size < fmt.smallest_normal) & fmt.has_subnormals
    noise = np.square(x - y).sum()
    return {
        "overflow": overflow.mean(),
        "clipped": ((x > fmt.max) | (x < fmt.min)).mean(),
        "flushed": ((y == 0) & ~overflow).mean(),
        "subnormal": small.mean(),
        "sqnr_db": 10 * np.log10(np.square(x).sum() / noise) if noise else math.inf,
    }


def contains(bounds: Shares, exact: Shares) -> bool:
    """Whether exact shares lie within bounds."""
    return all(
        getattr(bounds, key).low - 1e-12
        <= getattr(exact, key).low
        <= getattr(bounds, key).high + 1e-12
        for key in (*KEYS, "sqnr_db")
    )


@pytest.mark.parametrize("name", TARGETS)
def test_shares_of_an_array_are_counted_exactly(name: str) -> None:
    x = spread(30_000)
    row = fit(x, [name]).formats[0].as_is
    expected = counted(x, name)
    assert row.is_exact
    for key in KEYS:
        assert getattr(row, key).low == pytest.approx(expected[key], abs=1e-15), key
    assert row.sqnr_db.low == pytest.approx(expected["sqnr_db"], rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_code_counts_give_the_same_shares_as_the_elements(dtype: type) -> None:
    with np.errstate(over="ignore"):
        x = spread(20_000).astype(dtype)
    by_codes = fit(x, DEFAULT_FORMATS)
    by_elements = fit(x.astype(np.float32), DEFAULT_FORMATS)
    assert (by_codes.basis, by_elements.basis) == ("codes", "elements")
    for a, b in zip(by_codes.formats, by_elements.formats, strict=True):
        for key in KEYS:
            assert getattr(a.as_is, key) == getattr(b.as_is, key)
        assert (a.verdict, a.scale_log2) == (b.verdict, b.scale_log2)
        assert a.scaled.sqnr_db.low == pytest.approx(b.scaled.sqnr_db.low)
    assert fit(CodeHistogram.of(x)).formats == by_codes.formats


@given(st.integers(0, 1000), st.sampled_from(TARGETS), st.integers(-110, 90))
def test_float32_arrays_are_counted_like_their_float64_copies(
    seed: int, name: str, scale: int
) -> None:
    with np.errstate(over="ignore", under="ignore"):
        x = np.ldexp(spread(300, seed), scale).astype(np.float32)
    narrow = fit(x, [name]).formats[0]
    wide = fit(x.astype(np.float64), [name]).formats[0]
    assert narrow.scale_log2 == wide.scale_log2
    for shares in ("as_is", "scaled"):
        mine, theirs = getattr(narrow, shares), getattr(wide, shares)
        assert [getattr(mine, k) for k in KEYS] == [getattr(theirs, k) for k in KEYS]
        assert mine.sqnr_db.low == pytest.approx(theirs.sqnr_db.low, rel=1e-9)


@given(st.integers(0, 1000), st.sampled_from(TARGETS), st.integers(-20, 20))
def test_bounds_from_binades_and_extremes_hold(
    seed: int, name: str, scale: int
) -> None:
    x = np.ldexp(spread(300, seed), scale).astype(np.float64)
    exact = fit(x, [name]).formats[0].as_is
    binades = share_bounds(summarize(x, histogram=True), get(name))
    extremes = share_bounds(summarize(x), get(name))
    assert contains(binades, exact)
    assert contains(extremes, exact)
    for key in KEYS:
        assert getattr(extremes, key).low <= getattr(binades, key).low
        assert getattr(extremes, key).high >= getattr(binades, key).high


def test_a_summary_says_that_it_knows_bounds_only() -> None:
    x = spread(1000)
    assert fit(summarize(x, histogram=True)).basis == "binades"
    assert fit(summarize(x)).basis == "extremes"
    assert not fit(summarize(x)).is_exact
    assert fit(x).is_exact
    with pytest.raises(ArgumentError, match="extremes"):
        fit(Summary(n=4))


@pytest.mark.parametrize("name", ["float16", "e4m3", "e5m2", "hif8", "int8", "fp4"])
@pytest.mark.parametrize("amax", [3.0, 447.0, 449.0, 465.0, 1e-9, 1e9, 65519.0])
def test_the_best_scale_is_the_largest_that_does_not_overflow(
    name: str, amax: float
) -> None:
    row = fit(np.array([amax, amax * 1e-12]), [name]).formats[0]
    assert row.scaled.overflow.high == 0
    if row.scale_log2:
        assert not get(name).overflows(amax * 2.0**row.scale_log2)
        assert get(name).overflows(amax * 2.0 ** (row.scale_log2 + 1))


def test_the_narrowest_format_that_fits_is_recommended() -> None:
    x = np.random.default_rng(0).standard_normal(5000)
    assert fit(x).recommended == get("e4m3")
    found = fit(x * 1e-6, ["fp16", "bf16", "e4m3"])
    assert found.recommended == get("bf16")
    assert found.recommended_scaled.format == get("e4m3")
    assert [row.verdict for row in found.formats] == [
        "fits_scaled",
        "fits",
        "fits_scaled",
    ]
    assert fit(spread(3000), ["fp4"]).recommended is None


@pytest.mark.parametrize("x", [[], np.zeros(3), [np.nan, np.inf]], ids=repr)
def test_arrays_without_numbers_fit_everywhere(x: object) -> None:
    for row in fit(x).formats:
        assert row.verdict == "fits"
        assert row.scale_log2 == 0
    assert fit(x).recommended is None
    assert fit(x).recommended_scaled is None


@pytest.mark.parametrize(
    "one", ["fp16", np.float16, np.dtype("f2"), get("fp16")], ids=repr
)
def test_one_format_may_be_given_by_itself(one: object) -> None:
    assert [row.format.name for row in fit([1.0], one).formats] == ["float16"]
