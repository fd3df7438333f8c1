# SPDX-License-Identifier: Apache-2.0
"""Statistics through bit patterns against NumPy, which sees every NaN."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numcheck.measure.summary import Summary
from numcheck_jax.decoding import decode
from numcheck_jax.statistics import (
    empty_rows,
    is_bad,
    merge_rows,
    row,
    summarize,
)

FLOATS = [
    np.float16,
    ml_dtypes.bfloat16,
    np.float32,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e4m3b11fnuz,
    ml_dtypes.float8_e3m4,
]
SIZES = [1, 3, 64, 4095, 4096, 4097, 65_536, 1 << 20]
RNG = np.random.default_rng(0)


def device_summary(x: Any, measure: Any = "full") -> Summary:
    """What the compiled row says, even where the host could look by itself."""
    array = jnp.asarray(x)
    words = np.asarray(jax.jit(row, static_argnames="measure")(array, measure))
    return decode(words, array.dtype, array.size, measure)


def oracle(x: np.ndarray[Any, Any]) -> dict[str, Any]:
    # Casting a signalling NaN warns; it is one NaN among the others here.
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64).ravel()
    finite = wide[np.isfinite(wide)]
    magnitudes = np.abs(finite)
    positive = magnitudes[magnitudes > 0]
    return {
        "n": wide.size,
        "nan": int(np.isnan(wide).sum()),
        "pos_inf": int((wide == np.inf).sum()),
        "neg_inf": int((wide == -np.inf).sum()),
        "zero": int((wide == 0).sum()),
        "amax": magnitudes.max() if finite.size else None,
        "amin": positive.min() if positive.size else None,
        "low": wide.min(),
        "high": wide.max(),
        "subnormal": int((positive < float(ml_dtypes.finfo(x.dtype).tiny)).sum()),
    }


def assert_same(got: Summary, wanted: dict[str, Any]) -> None:
    for field, value in wanted.items():
        found = getattr(got, field)
        if isinstance(value, float) and math.isnan(value):
            assert math.isnan(found), field
        else:
            assert found == value, field


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
def test_every_code_of_a_narrow_float_is_counted(dtype: Any) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    if bits > 16:
        pytest.skip("too many codes")
    unsigned = {8: np.uint8, 16: np.uint16}[bits]
    codes = np.arange(1 << bits, dtype=unsigned).view(dtype)
    assert_same(device_summary(codes), oracle(codes))
    for code in codes[:: max(1, codes.size // 512)]:
        assert_same(device_summary(code[None]), oracle(code[None]))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("size", SIZES)
def test_nan_is_seen_in_any_position(dtype: Any, size: int) -> None:
    base = RNG.standard_normal(size).astype(dtype)
    places = {0, size - 1, size // 2, size // 3, *RNG.integers(size, size=4).tolist()}
    for place in places:
        x = base.copy()
        x[place] = np.nan
        assert device_summary(x, "lean").nan == 1
        assert summarize(jnp.asarray(x)).nan == 1


@pytest.mark.parametrize("size", SIZES)
def test_nan_is_seen_in_any_position_of_a_float64(size: int) -> None:
    with jax.enable_x64(True):
        x = np.ones(size)
        for place in {0, size - 1, size // 2}:
            y = x.copy()
            y[place] = np.nan
            assert device_summary(y).nan == 1


@given(hnp.arrays(np.float32, st.sampled_from([(), (3, 4)])))
def test_row_agrees_with_numpy(x: np.ndarray[Any, Any]) -> None:
    assert_same(device_summary(x), oracle(x))


def test_float64_is_exact_where_float32_would_round() -> None:
    with jax.enable_x64(True):
        x = np.array([1.0 + 2.0**-40, -(2.0**-1000), 1e300, 5e-324, 0.0])
        assert_same(device_summary(x), oracle(x))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
def test_ranges_tell_what_is_not_finite_without_counting(dtype: Any) -> None:
    for values in ([1, -2.5, 0], [0, 0], [1, np.inf], [-np.inf, 3], [np.nan, np.inf]):
        x = np.array(values).astype(dtype)
        got, wanted = device_summary(x, "range"), oracle(x)
        infinite = wanted["pos_inf"] + wanted["neg_inf"]
        assert got.is_finite == (wanted["nan"] + infinite == 0)
        assert got.has_nan == (wanted["nan"] > 0)
        if got.is_finite:
            assert (got.amax, got.amin) == (wanted["amax"], wanted["amin"])
            assert got.is_all_zero in (None, wanted["zero"] == x.size)
        elif not wanted["nan"]:
            assert got.kind == ("+inf" if wanted["pos_inf"] else "-inf")


@pytest.mark.parametrize("size", [1, 4096, 4097, 1 << 20])
def test_ranges_see_a_nan_in_any_position(size: int) -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32):
        for place in {0, size - 1, size // 2}:
            x = np.ones(size, dtype)
            x[place] = np.nan
            assert device_summary(x, "range").has_nan
            words = jax.jit(lambda v: is_bad(row(v, "range")[None]))(jnp.asarray(x))
            assert words[0]


@given(hnp.arrays(np.int32, 7), hnp.arrays(np.uint8, 7))
def test_integers_have_their_extremes(a: Any, b: Any) -> None:
    for x in (a, b):
        got = device_summary(x)
        assert (got.low, got.high) == (int(x.min()), int(x.max()))
        assert got.zero == int((x == 0).sum())
        assert got.amax == float(np.abs(x.astype(np.int64)).max())


@given(hnp.arrays(np.float16, st.sampled_from([0, 5])), hnp.arrays(np.float16, 3))
def test_merging_rows_is_measuring_both_arrays_at_once(a: Any, b: Any) -> None:
    together = np.concatenate([a, b])
    measured = jax.jit(row)
    rows = jax.jit(merge_rows)(measured(jnp.asarray(a)), measured(jnp.asarray(b)))
    merged = decode(np.asarray(rows), together.dtype, together.size)
    assert str(merged) == str(device_summary(together))


def test_empty_rows_change_nothing() -> None:
    some = jax.jit(row)(jnp.array([1.0, -jnp.inf, jnp.nan]))
    assert np.array_equal(jax.jit(merge_rows)(some, empty_rows(1)[0]), some)
    assert decode(np.asarray(empty_rows(1)[0]), np.float32, 0) == Summary.empty()


def test_complex_number_counts_as_its_two_parts() -> None:
    x = jnp.array([1 + 2j, complex(0, math.inf), complex(math.nan, -3)])
    for got in (summarize(x), device_summary(x)):
        assert (got.n, got.nan, got.pos_inf, got.zero) == (6, 1, 1, 1)
        assert got.amax == 3.0


def test_array_spread_over_devices_is_measured_whole() -> None:
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    x = jax.device_put(jnp.arange(8.0).at[6].set(jnp.nan), spread)
    got = summarize(x)
    assert (got.n, got.nan, got.zero, got.amax) == (8, 1, 1, 7.0)
