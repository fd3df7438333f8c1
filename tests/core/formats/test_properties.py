# SPDX-License-Identifier: Apache-2.0
"""What must hold for rounding whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from numcheck.formats import get, names, quantize
from tests.core.formats.golden import same

NEAREST = ["nearest_even", "nearest_away"]
DIRECTED = ["toward_zero", "up", "down", "to_odd"]
SIGNED = [n for n in names() if get(n).signed]
SYMMETRIC = [n for n in SIGNED if get(n).kind != "integer"]

any_name = st.sampled_from(names())
any_mode = st.sampled_from(NEAREST + DIRECTED)
any_overflow = st.sampled_from(["ieee", "saturate", "satfinite"])
any_floats = hnp.arrays(
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 40),
    elements=st.floats(width=32, allow_nan=True),
)
reals = st.lists(
    st.floats(-1e6, 1e6) | st.floats(allow_nan=False), min_size=2, max_size=40
)


def mirrored(mode: str) -> str:
    """Returns the mode that does to -x what `mode` does to x."""
    return {"up": "down", "down": "up"}.get(mode, mode)


@given(st.sampled_from(SIGNED), any_mode, reals)
def test_rounding_is_monotone(name: str, mode: str, values: list[float]) -> None:
    x = np.sort(np.array(values))
    y = quantize(x, name, rounding=mode, overflow="saturate")
    assert (np.diff(y) >= 0).all()


@given(any_name, any_mode, any_overflow, any_floats)
def test_rounding_twice_changes_nothing(
    name: str, mode: str, overflow: str, x: np.ndarray
) -> None:
    once = quantize(x, name, rounding=mode, overflow=overflow)
    assert same(quantize(once, name, rounding=mode, overflow=overflow), once)


@given(st.sampled_from(SYMMETRIC), any_mode, any_overflow, any_floats)
def test_rounding_is_symmetric_in_sign(
    name: str, mode: str, overflow: str, x: np.ndarray
) -> None:
    y = quantize(x, name, rounding=mode, overflow=overflow)
    z = quantize(-x, name, rounding=mirrored(mode), overflow=overflow)
    if get(name).has_neg_zero:
        assert same(z, -y)
    else:
        assert same(z + 0.0, -y + 0.0)


@given(st.sampled_from(SIGNED), reals)
def test_directed_rounding_encloses_the_number(name: str, values: list[float]) -> None:
    fmt = get(name)
    x = np.clip(np.array(values), fmt.min, fmt.max)
    low, high = quantize(x, name, rounding="down"), quantize(x, name, rounding="up")
    nearest = quantize(x, name)
    assert (low <= x).all()
    assert (x <= high).all()
    assert ((nearest == low) | (nearest == high)).all()
    assert (np.abs(quantize(x, name, rounding="toward_zero")) <= np.abs(x)).all()


@given(st.sampled_from(SIGNED), reals)
def test_nearest_rounding_has_the_smaller_error(name: str, values: list[float]) -> None:
    fmt = get(name)
    x = np.clip(np.array(values), fmt.min, fmt.max)
    for mode in NEAREST:
        error = np.abs(quantize(x, name, rounding=mode) - x)
        for direction in ("down", "up"):
            assert (error <= np.abs(quantize(x, name, rounding=direction) - x)).all()


@given(any_name, any_floats)
def test_flushing_leaves_no_subnormal(name: str, x: np.ndarray) -> None:
    fmt = get(name)
    y = np.abs(quantize(x, name, subnormals="flush"))
    if fmt.has_subnormals:
        assert not ((y > 0) & (y < fmt.smallest_normal)).any()


@pytest.mark.parametrize("name", ["e4m3", "fp16", "hif8", "q4.4", "e8m0"])
def test_stochastic_rounding_is_unbiased_and_repeatable(name: str) -> None:
    fmt = get(name)
    x = np.full(200_000, 1.0 + 0.3 * fmt.eps)
    if name == "e8m0":
        x = np.full(200_000, 1.3)
    y = quantize(x, name, rounding="stochastic", seed=4)
    low, high = np.unique(y)
    share = (x[0] - low) / (high - low)
    sigma = np.sqrt(share * (1 - share) / x.size)
    assert abs((y == high).mean() - share) < 5 * sigma
    assert same(y, quantize(x, name, rounding="stochastic", seed=4))
    assert not same(y, quantize(x, name, rounding="stochastic", seed=5))


def test_stochastic_rounding_leaves_what_is_representable_alone() -> None:
    x = np.arange(-8, 9, dtype=np.float32)
    assert same(quantize(x, "e4m3", rounding="stochastic"), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stochastic_rounding_near_zero_keeps_the_mean(dtype: type) -> None:
    smallest = get("fp16").smallest_subnormal
    x = np.full(400_000, smallest / 8, dtype)
    mean = quantize(x, "fp16", rounding="stochastic", seed=1).mean(dtype=np.float64)
    assert mean == pytest.approx(smallest / 8, rel=0.02)
