# SPDX-License-Identifier: Apache-2.0
"""summarize counts what the obvious expressions count, for every dtype and shape."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.formats import finfo
from numcheck.measure import CodeHistogram, Summary, summarize
from tests.core.measure.arrays import DTYPES, measured, mixed

SIZES = [0, 1, 2, 7, 1000, 70_001, 300_001]
COUNTS = ("n", "nan", "pos_inf", "neg_inf", "zero", "subnormal", "exponents")


def agrees(summary: Summary, expected: dict[str, Any]) -> None:
    """Asserts that exact fields are equal and float sums close."""
    for name, value in expected.items():
        actual = getattr(summary, name)
        if name in ("total", "total_sq"):
            scale = math.sqrt(expected["total_sq"]) if name == "total" else value
            assert actual == pytest.approx(value, rel=1e-12, abs=1e-12 * scale), name
        elif isinstance(value, float) and math.isnan(value):
            assert math.isnan(actual), name
        else:
            assert actual == value, name


@pytest.mark.parametrize("histogram", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", DTYPES)
def test_every_field_is_what_the_obvious_expression_gives(
    name: str, size: int, histogram: bool
) -> None:
    x = mixed(DTYPES[name], size)
    expected = measured(x, finfo(x).smallest_normal)
    if not histogram:
        expected["exponents"] = None
    agrees(summarize(x, histogram=histogram), expected)


@pytest.mark.parametrize("name", DTYPES)
def test_finite_arrays_of_one_sign_have_the_right_ends(name: str) -> None:
    for sign in (1, -1):
        for zeros in (0, 3):
            x = np.abs(np.random.default_rng(0).standard_normal(500)) + 0.1
            x[:zeros] = 0
            y = (sign * x).astype(DTYPES[name])
            agrees(
                summarize(y),
                measured(y, finfo(y).smallest_normal) | {"exponents": None},
            )


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize(
    "value", [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -2.0], ids=str
)
def test_arrays_of_one_value_are_summarised(name: str, value: float) -> None:
    with np.errstate(invalid="ignore"):
        x = np.full(9, value).astype(DTYPES[name])
    agrees(summarize(x, histogram=True), measured(x, finfo(x).smallest_normal))


def test_every_float16_is_counted_by_kind() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    s = summarize(x)
    assert (s.n, s.nan, s.pos_inf, s.neg_inf) == (65536, 2046, 1, 1)
    assert (s.zero, s.subnormal) == (2, 2046)
    assert (s.amax, s.amin) == (65504.0, 2.0**-24)


@pytest.mark.parametrize(
    "x",
    [
        np.arange(-5, 9),
        np.array([True, False, True]),
        np.array([0, 255], np.uint8),
        np.array([-8, 7, 0]).astype(ml_dtypes.int4),
        [1, 2.5, -3],
        7,
    ],
    ids=repr,
)
def test_integers_bools_lists_and_numbers_are_summarised(x: object) -> None:
    expected = measured(np.asarray(x), 0.0)
    agrees(summarize(x, histogram=True), expected)


@pytest.mark.parametrize(
    "wrong",
    [np.ones(2, complex), np.array([None]), np.array(["1"]), object()],
    ids=repr,
)
def test_what_holds_no_real_numbers_is_refused(wrong: object) -> None:
    with pytest.raises(ArgumentTypeError):
        summarize(wrong)


def test_the_order_of_elements_in_memory_does_not_matter() -> None:
    x = mixed(np.float32, 30_000).reshape(100, 300)
    for view in (x.T, x[::-1, ::2], x[:, 5], np.asfortranarray(x)):
        expected = measured(view, finfo(x).smallest_normal)
        agrees(summarize(view, histogram=True), expected)


def test_arrays_are_read_from_a_file_without_loading_it(tmp_path: Any) -> None:
    x = mixed(np.float32, 500_000)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    seen: list[int] = []
    summary = summarize(mapped, histogram=True, progress=seen.append)
    agrees(summary, measured(x, finfo(x).smallest_normal))
    assert sum(seen) == x.size
    assert len(seen) > 1


def test_other_byte_orders_are_read() -> None:
    x = mixed(np.float64, 1000)
    agrees(
        summarize(x.astype(">f8"), histogram=True),
        measured(x, finfo(x).smallest_normal),
    )


@pytest.mark.parametrize("zeros", [0, 1000], ids=["no zeros", "zeros"])
@pytest.mark.parametrize("spread", [0, 10, 33, 100])
def test_binades_of_many_elements_are_those_of_frexp(spread: int, zeros: int) -> None:
    rng = np.random.default_rng(spread)
    # Pieces of their own magnitudes, each within `spread` binades.
    around = np.repeat(rng.integers(-20, 20, 7), 60_000)
    exponents = around + rng.integers(0, spread + 1, around.size)
    x = np.ldexp(rng.uniform(1, 2, around.size), exponents).astype(np.float32)
    x *= rng.choice([-1, 1], x.size).astype(np.float32)
    x[:zeros] = 0
    found, counts = np.unique(np.frexp(x[x != 0])[1] - 1, return_counts=True)
    expected = dict(zip(found.tolist(), counts.tolist(), strict=True))
    assert summarize(x, histogram=True).exponents == expected


any_array = (
    st.lists(st.floats(width=32), max_size=30)
    .map(np.array)
    .map(lambda values: values.astype(np.float32))
)


@given(st.lists(any_array, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_merging_gives_the_summary_of_all_elements_in_any_order(
    parts: list[np.ndarray], shuffler: Any
) -> None:
    whole = summarize(np.concatenate(parts), histogram=True)
    shuffler.shuffle(parts)
    merged = Summary.empty()
    for part in parts:
        merged = merged.merge(summarize(part, histogram=True))
    agrees(merged, {name: getattr(whole, name) for name in whole.__slots__})


@settings(max_examples=40)
@given(any_array, any_array, any_array)
def test_merging_is_associative(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    x, y, z = (summarize(part, histogram=True) for part in (a, b, c))
    left, right = x.merge(y).merge(z), x.merge(y.merge(z))
    agrees(left, {name: getattr(right, name) for name in right.__slots__})


@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
)
def test_code_counts_say_what_the_array_says(name: str) -> None:
    x = mixed(DTYPES[name], 20_000)
    counted = CodeHistogram.of(x)
    agrees(counted.summary(), measured(x, finfo(x).smallest_normal))
    halves = CodeHistogram.of(x[:9000]).merge(CodeHistogram.of(x[9000:]))
    assert (halves.counts == counted.counts).all()


def test_codes_of_storage_wider_than_the_format_are_folded() -> None:
    x = np.array([1.0, -6.0, 0.5]).astype(ml_dtypes.float4_e2m1fn)
    counted = CodeHistogram.of(x)
    assert counted.counts.size == 16
    assert counted.counts.sum() == 3
    agrees(counted.summary(), measured(x, 1.0))


def test_codes_of_different_formats_are_not_merged() -> None:
    halves = CodeHistogram.of(np.ones(2, np.float16))
    with pytest.raises(ArgumentError, match="bfloat16"):
        halves.merge(CodeHistogram.of(np.ones(2, ml_dtypes.bfloat16)))
    with pytest.raises(ArgumentTypeError, match="16 bits"):
        CodeHistogram.of(np.ones(2, np.float32))


@given(st.lists(st.floats(-1e6, 1e6), max_size=30))
def test_mean_deviation_and_root_mean_square_are_numpy_s(values: list[float]) -> None:
    x = np.array([*values, np.nan, np.inf])
    s = summarize(x)
    if not values:
        assert s.mean is s.std is s.rms is None
        return
    finite = np.array(values)
    scale = float(np.abs(finite).max())
    assert s.mean == pytest.approx(finite.mean(), rel=1e-9, abs=1e-9 * scale)
    assert s.std == pytest.approx(finite.std(), rel=1e-6, abs=1e-6 * scale)
    assert s.rms == pytest.approx(math.sqrt((finite**2).mean()), rel=1e-9)


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([1.7e308, 1.7e308, -1.7e308], 1.7e308),
        ([1.7e308] * 3 + [-1.7e308] * 2, 1.7e308),
        ([1.7e308] * 3 + [-1.7e308] * 200, -math.inf),
        ([1.7e308] * 3, math.inf),
    ],
    ids=["fits", "on the way", "below", "above"],
)
def test_a_sum_beyond_float64_is_infinite_and_never_nan(
    values: list[float], total: float
) -> None:
    summary = summarize(np.array(values))
    assert summary.total == pytest.approx(total)
    assert (summary.mean is None) is math.isinf(total)
    assert summary.rms is None
    assert summary.std is None


def test_axes_in_any_order_in_memory_give_the_same_summary() -> None:
    x = mixed(np.float16, 60_000).reshape(20, 50, 60)
    expected = summarize(x, histogram=True)
    for order in ((2, 0, 1), (1, 2, 0), (0, 2, 1)):
        found = summarize(x.transpose(order), histogram=True)
        assert found.total == pytest.approx(expected.total)
        unlike_itself = ("total", "total_sq", "low", "high")  # rounded, or NaN
        none = dict.fromkeys(unlike_itself)
        same = [dataclasses.replace(s, **none) for s in (found, expected)]
        assert same[0] == same[1]
