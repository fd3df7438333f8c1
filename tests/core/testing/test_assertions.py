# SPDX-License-Identifier: Apache-2.0
"""Assertions for test suites hold what they claim and say what failed."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.testing import assert_close_in_format, assert_finite, assert_headroom


@dataclasses.dataclass
class State:
    step: int
    weights: dict[str, list[object]]


@given(hnp.arrays(np.float32, st.integers(0, 20)))
def test_finite_means_what_numpy_says(values: np.ndarray) -> None:
    if np.isfinite(values).all():
        assert_finite(values)
    else:
        with pytest.raises(AssertionError):
            assert_finite(values)


def test_every_bad_array_is_named_by_its_path() -> None:
    bad = np.array([1, np.nan, np.inf], ml_dtypes.bfloat16)
    state = State(3, {"a": [np.ones(2), bad], "b": [bad, None, "text"]})
    with pytest.raises(AssertionError) as raised:
        assert_finite(state, "state")
    assert str(raised.value).splitlines() == [
        "state.weights['a'][1] is not finite: 1 NaN, 1 +Inf, 0 -Inf of 3 elements",
        "state.weights['b'][0] is not finite: 1 NaN, 1 +Inf, 0 -Inf of 3 elements",
    ]


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="got object"):
        assert_finite([object()])


@pytest.mark.parametrize("amax", [60000.0, 20000.0, 16376.0, 16375.0, 1.0])
def test_headroom_is_measured_in_bits_of_the_format(amax: float) -> None:
    values = np.array([amax, -1.0], np.float32)
    if math.log2(65504 / amax) >= 2:
        assert_headroom(values, bits=2, format="float16")
    else:
        with pytest.raises(AssertionError, match="bits in float16"):
            assert_headroom(values, bits=2, format="float16")


def test_an_overflowed_value_has_no_headroom() -> None:
    with pytest.raises(AssertionError, match=r"1 NaN, 1 \+Inf"):
        assert_headroom(np.array([np.inf, np.nan], np.float16), bits=1)


def test_headroom_needs_a_number_of_bits() -> None:
    with pytest.raises(ArgumentError, match="finite number"):
        assert_headroom(np.ones(2), bits=math.nan)


@given(st.integers(0, 0x7BFF), st.integers(0, 40), st.integers(0, 40))
def test_closeness_counts_the_values_in_between(code: int, apart: int, n: int) -> None:
    other = min(code + apart, 0x7BFF)
    pair = np.array([code, other], np.uint16).view(np.float16)
    if other - code <= n:
        assert_close_in_format(pair[:1], pair[1:], ulps=n)
    else:
        with pytest.raises(AssertionError, match=f"more than {n} values of float16"):
            assert_close_in_format(pair[:1], pair[1:], ulps=n)


def test_nan_is_close_to_nan_and_to_nothing_else() -> None:
    nan, one = np.float32([np.nan]), np.float32([1])
    assert_close_in_format(nan, nan)
    with pytest.raises(AssertionError):
        assert_close_in_format(nan, one, ulps=1e9)


def test_shapes_must_agree() -> None:
    with pytest.raises(AssertionError, match="shapes differ"):
        assert_close_in_format(np.ones((2, 1)), np.ones((1, 2)))


def test_a_format_in_the_place_of_an_argument_is_not_overlooked() -> None:
    with pytest.raises(ArgumentError, match="format='fp16'"):
        assert_headroom(np.ones(2), "fp16", bits=1)


@pytest.mark.parametrize("wrong", [-1, np.nan, "1"], ids=repr)
def test_closeness_needs_a_number_of_values(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="ulps"):
        assert_close_in_format([1.0], [1.0], "fp16", ulps=wrong)


@pytest.mark.parametrize("limit", [np.int64(1), np.float32(1)], ids=repr)
def test_limits_may_be_numbers_of_numpy(limit: Any) -> None:
    assert_close_in_format([1.0], [1.0], "fp16", ulps=limit)
    assert_headroom(np.ones(2, np.float16), bits=limit)


def test_numbers_are_named_without_their_type() -> None:
    with pytest.raises(AssertionError, match=r"\(0,\): 1\.0 against 1\.5"):
        assert_close_in_format([1.0], [1.5], "fp16")
