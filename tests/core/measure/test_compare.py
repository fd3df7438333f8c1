# SPDX-License-Identifier: Apache-2.0
"""compare measures errors and reports mismatches without averaging them in."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from numcheck.errors import ArgumentError
from numcheck.formats import decode, get, quantize
from numcheck.measure import compare, tolerance_for, ulp_distance


def test_metrics_are_their_definitions() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(100_000)
    b = a + 1e-3 * rng.standard_normal(a.size)
    c = compare(a, b, fmt="fp16")
    error = np.abs(a - b)
    assert c.max_abs == error.max()
    assert c.worst_index == (int(error.argmax()),)
    denominator = np.maximum(np.abs(a), get("fp16").smallest_normal)
    assert c.max_rel == pytest.approx((error / denominator).max())
    assert c.rel_l2 == pytest.approx(np.linalg.norm(a - b) / np.linalg.norm(a))
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert c.cosine == pytest.approx(cosine)
    assert c.sqnr_db == pytest.approx(10 * np.log10((a @ a) / np.square(a - b).sum()))
    assert c.outside == int((error > 1e-5 + 1e-3 * np.abs(a)).sum()) > 0
    assert not c.is_close


def test_nan_and_inf_are_counted_apart() -> None:
    a = np.array([1.0, np.nan, np.nan, np.inf, np.inf, -np.inf, 2.0])
    b = np.array([1.0, np.nan, 5.0, np.inf, -np.inf, 1.0, 2.0])
    c = compare(a, b)
    assert (c.n, c.finite, c.both_nan) == (7, 2, 1)
    assert (c.nan_mismatch, c.inf_mismatch, c.nonfinite_mismatch) == (1, 2, 3)
    assert (c.max_abs, c.rel_l2, c.sqnr_db) == (0.0, 0.0, math.inf)
    assert not c.is_close


def test_equal_arrays_are_close_whatever_they_hold() -> None:
    a = np.array([0.0, -0.0, np.nan, np.inf, 1e300])
    c = compare(a, a)
    assert c.is_close
    assert c.max_ulp == 0


def test_different_shapes_are_reported_and_not_compared() -> None:
    c = compare(np.ones((2, 3)), np.ones(6))
    assert not c.same_shape
    assert not c.is_close
    assert c.max_abs is None


@pytest.mark.parametrize("shape", [(0,), ()], ids=str)
def test_nothing_and_one_number_can_be_compared(shape: tuple[int, ...]) -> None:
    c = compare(np.ones(shape), np.ones(shape))
    assert c.is_close
    assert (c.max_abs is None) == (shape == (0,))


def test_the_less_precise_dtype_decides_the_tolerance() -> None:
    a = np.ones(3, np.float32)
    assert compare(a, a.astype(np.float16)).rtol == 1e-3
    c = compare(a, a.astype(ml_dtypes.bfloat16))
    assert (c.rtol, c.ulp_format, c.same_dtype) == (1.6e-2, "bfloat16", False)
    assert compare(a, a, tolerances="msprobe").rtol == 2.0**-20
    assert compare(a, a, rtol=0.5).rtol == 0.5
    assert tolerance_for(get("e4m3")).rtol == 0.125


# As torch.testing.assert_close, jax's test utilities and msprobe have them.
@pytest.mark.parametrize(
    ("convention", "name", "rtol", "atol"),
    [
        ("torch", "float16", 1e-3, 1e-5),
        ("torch", "bfloat16", 1.6e-2, 1e-5),
        ("torch", "float32", 1.3e-6, 1e-5),
        ("torch", "float64", 1e-7, 1e-7),
        ("jax", "float16", 1e-3, 1e-3),
        ("jax", "bfloat16", 1e-2, 1e-2),
        ("jax", "float32", 1e-6, 1e-6),
        ("msprobe", "float16", 2.0**-10, 0.0),
        ("msprobe", "bfloat16", 2.0**-8, 0.0),
        ("msprobe", "float32", 2.0**-20, 0.0),
    ],
)
def test_a_difference_at_the_tolerance_is_close_and_a_larger_one_is_not(
    convention: Any, name: str, rtol: float, atol: float
) -> None:
    tolerance = tolerance_for(get(name), convention)
    assert (tolerance.rtol, tolerance.atol) == (rtol, atol)
    a = np.ones(2)
    for factor, close in ((0.99, True), (1.01, False)):
        b = a + factor * (rtol + atol)
        assert compare(a, b, rtol=rtol, atol=atol).is_close is close


def test_a_zero_reference_has_no_relative_error_to_speak_of() -> None:
    c = compare(np.zeros(2), np.array([0.0, 1.0]))
    assert (c.rel_l2, c.cosine, c.sqnr_db) == (math.inf, None, -math.inf)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "e4m3", "hif8", "fp4", "int8"])
def test_neighbours_in_a_format_are_one_step_apart(name: str) -> None:
    values = decode(np.arange(1 << get(name).bits), name).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    assert (ulp_distance(values[1:], values[:-1], name) == 1).all()
    assert (ulp_distance(values, values, name) == 0).all()


@given(
    hnp.arrays(np.float64, 20, elements=st.floats(-6e4, 6e4)),
    hnp.arrays(np.float64, 20, elements=st.floats(-6e4, 6e4)),
)
def test_distance_is_symmetric_and_counts_values_between(
    a: np.ndarray, b: np.ndarray
) -> None:
    distance = ulp_distance(a, b, "fp16")
    assert (distance == ulp_distance(b, a, "fp16")).all()
    values = np.unique(decode(np.arange(1 << 16), "fp16"))
    values = values[np.isfinite(values)]
    places = [np.searchsorted(values, quantize(x, "fp16") + 0.0) for x in (a, b)]
    assert (distance == np.abs(places[0] - places[1])).all()


def test_distance_to_nan_is_infinite_and_to_inf_one_step_beyond_the_largest() -> None:
    a, b = [np.nan, np.nan, 65504.0], [np.nan, 1.0, np.inf]
    assert ulp_distance(a, b, "fp16").tolist() == [0.0, math.inf, 1.0]


def test_an_unknown_convention_is_named() -> None:
    with pytest.raises(ArgumentError, match="did you mean 'torch'"):
        compare([1.0], [1.0], tolerances="torhc")


@pytest.mark.parametrize("octave", [-1000, -600, 0, 600, 1020])
def test_ratios_do_not_depend_on_the_magnitude(octave: int) -> None:
    a, b = np.array([1.0, -2.0, 3.0]), np.array([1.0, -2.25, 3.0])
    near = compare(a, b)
    far = compare(np.ldexp(a, octave), np.ldexp(b, octave))
    for ratio in ("rel_l2", "cosine", "sqnr_db"):
        assert getattr(far, ratio) == pytest.approx(getattr(near, ratio), rel=1e-12)


def test_a_difference_too_small_to_square_is_still_a_difference() -> None:
    found = compare([1.0, 1e-200], [1.0, 3e-200])
    assert found.rel_l2 == pytest.approx(2e-200)
    assert found.sqnr_db == pytest.approx(20 * (200 - math.log10(2)))
    beside = compare([1e150, 1e-200], [1e150, 3e-200])
    assert beside.sqnr_db == pytest.approx(20 * (350 - math.log10(2)))
    beyond = compare([1e300, 1e-200], [1e300, 3e-200])  # the largest are equal
    assert beyond.sqnr_db == pytest.approx(20 * (500 - math.log10(2)))
    opposite = compare([1.7e308], [-1.7e308])
    assert (opposite.rel_l2, opposite.cosine) == (2.0, -1.0)


@pytest.mark.parametrize("wrong", [-1, math.nan, "1e-3"], ids=repr)
@pytest.mark.parametrize("name", ["rtol", "atol", "floor"])
def test_a_tolerance_that_is_none_is_named(name: str, wrong: Any) -> None:
    with pytest.raises(ArgumentError, match=name):
        compare([1.0], [1.0], **{name: wrong})


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ([1.0, 2.0], [[1.0, 2.0]], "a has shape (2,), b has shape (1, 2)"),
        ([1.0, math.nan], [1.0, math.inf], "NaN or Inf differs in 1"),
        ([1.0, 2.0], [1.0, 3.0], "max_abs 1 at (1,)"),
        ([math.inf], [math.inf], "none is finite in both"),
        ([], [], "both empty"),
    ],
)
def test_a_printed_comparison_says_what_came_out(a: Any, b: Any, said: str) -> None:
    assert said in str(compare(a, b))


@pytest.mark.parametrize("n", [3, 7, 1000])
def test_a_cosine_is_none_beyond_one(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n).astype(np.float32)
    found = compare(values, values)
    assert found.cosine is not None
    assert found.cosine <= 1
