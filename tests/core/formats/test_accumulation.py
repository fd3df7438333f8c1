# SPDX-License-Identifier: Apache-2.0
"""Products with narrow accumulators lose what numpy in that dtype loses."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from numcheck.errors import ArgumentError
from numcheck.formats import accumulation_bound, get, matmul, quantize


def step_by_step(a: np.ndarray, b: np.ndarray, dtype: type) -> np.ndarray:
    """Returns the product, one exact product rounded into the sum at a time."""
    total = np.zeros((a.shape[0], b.shape[1]), dtype)
    for k in range(a.shape[1]):
        exact = total.astype(np.float64) + np.outer(a[:, k], b[k])
        total = (
            exact.astype(np.float32).astype(dtype)
            if dtype != np.float16
            else (exact.astype(dtype))
        )
    return total.astype(np.float64)


@pytest.mark.parametrize(
    ("name", "dtype"), [("float16", np.float16), ("float32", np.float32)]
)
def test_one_product_a_step_is_what_the_dtype_itself_gives(
    name: str, dtype: type
) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 5, 60))
    a, b = quantize(a, "e4m3"), quantize(b.T, "e4m3")
    assert (matmul(a, b, accumulator=name) == step_by_step(a, b, dtype)).all()


def test_a_bfloat16_sum_of_ones_stops_where_its_precision_ends() -> None:
    ones = np.ones((1, 1000))
    total = ml_dtypes.bfloat16(0)
    for _ in range(1000):
        total = ml_dtypes.bfloat16(float(total) + 1)
    assert matmul(ones, ones.T, accumulator="bf16").item() == float(total) == 256


# Positive data, e4m3 inputs, K = 16384: what the sum loses, and what helps.
@pytest.mark.parametrize(
    ("accumulator", "chunk", "promote_every", "low", "high"),
    [
        ("float16", 1, None, 0.4, 0.6),
        ("float16", 32, None, 1e-3, 6e-3),
        ("bfloat16", 32, None, 1e-2, 6e-2),
        ("aligned14", 32, None, 0.15, 0.35),
        ("aligned14", 32, 128, 1e-4, 1e-3),
        ("float32", 1, None, 1e-7, 1e-6),
    ],
)
def test_long_sums_lose_what_was_measured(
    accumulator: str, chunk: int, promote_every: int | None, low: float, high: float
) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 1, (8, 16384)), rng.uniform(0, 1, (16384, 8))
    exact = quantize(a, "e4m3") @ quantize(b, "e4m3")
    result = matmul(a, b, "e4m3", accumulator, chunk, promote_every)
    error = np.linalg.norm(result - exact) / np.linalg.norm(exact)
    assert low < error < high


def test_block_formats_run_along_the_summed_axis() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((4, 96)), rng.standard_normal((96, 5))
    expected = quantize(a, "mxfp8") @ quantize(b, "mxfp8", axis=0)
    assert np.allclose(matmul(a, b, "mxfp8", chunk=96), expected, rtol=1e-6, atol=1e-6)


def test_overflow_of_the_accumulator_is_an_infinity() -> None:
    large = np.full((1, 4), 200.0)
    assert matmul(large, large.T, accumulator="float16").item() == math.inf
    assert matmul(large, large.T, accumulator="float32").item() == 160000.0


def test_nan_is_passed_on() -> None:
    a = np.array([[np.nan, 1.0]])
    assert np.isnan(matmul(a, np.ones((2, 1)))).all()


def test_the_bound_is_reached_by_the_worst_case_and_not_exceeded() -> None:
    bound = accumulation_bound(64, 30.0, 30.0, "fp16")
    a, b = np.full((1, 64), 30.0), np.full((64, 1), 30.0)
    assert bound.worst == (a @ b).item() == 57600.0
    assert bound.worst_margin == pytest.approx(math.log2(65504 / 57600))
    assert bound.random == 8 * 900
    assert bound.safe_terms == 72
    assert matmul(a, b, accumulator="fp16").item() <= get("fp16").max


def test_a_bound_of_nothing_is_infinitely_far() -> None:
    bound = accumulation_bound(64, 0.0, 30.0)
    assert bound.worst_margin == math.inf
    assert bound.safe_terms is None


def test_unusable_arguments_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"\(M, K\)"):
        matmul(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ArgumentError, match="multiple of chunk"):
        matmul(np.ones((1, 4)), np.ones((4, 1)), chunk=3, promote_every=4)
    with pytest.raises(ArgumentError, match="at least 1"):
        matmul(np.ones((1, 4)), np.ones((4, 1)), chunk=0)
    with pytest.raises(ArgumentError, match="at least 1"):
        accumulation_bound(0, 1.0, 1.0)
    with pytest.raises(ArgumentError, match="whole number"):
        matmul(np.ones((1, 4)), np.ones((4, 1)), promote_every=2.5)
    with pytest.raises(ArgumentError, match="negative"):
        accumulation_bound(4, math.nan, 1.0)
