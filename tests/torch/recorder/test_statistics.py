# SPDX-License-Identifier: Apache-2.0
"""A tensor's summary agrees with NumPy's float64 arithmetic, for every dtype."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from numcheck.measure.summary import Summary
from numcheck_torch import statistics
from numcheck_torch.meters import extremes
from numcheck_torch.statistics import summarize

FLOATS = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
]


def every_code(dtype: torch.dtype) -> torch.Tensor:
    """All values of an 8- or 16-bit dtype, else random bit patterns and specials."""
    if dtype.itemsize == 1:
        return torch.arange(256, dtype=torch.int16).to(torch.uint8).view(dtype)
    if dtype.itemsize == 2:
        return torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(dtype)
    bits = torch.int32 if dtype == torch.float32 else torch.int64
    info = torch.iinfo(bits)
    g = torch.Generator().manual_seed(0)
    codes = torch.randint(info.min, info.max, (5000,), generator=g, dtype=bits)
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan], dtype=dtype)
    return torch.cat([codes.view(dtype), special])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_value_of_a_format_is_counted_as_numpy_counts_it(
    dtype: torch.dtype,
) -> None:
    x = every_code(dtype)
    wide = x.double().numpy()
    finite = wide[np.isfinite(wide)]
    magnitude = np.abs(finite)
    got = summarize(x, exponents=True)
    assert got.n == wide.size
    assert got.nan == np.isnan(wide).sum()
    assert got.pos_inf == (wide == np.inf).sum()
    assert got.neg_inf == (wide == -np.inf).sum()
    assert got.zero == (wide == 0).sum()
    normal = torch.finfo(dtype).smallest_normal
    assert got.subnormal == ((magnitude > 0) & (magnitude < normal)).sum()
    assert got.amax == magnitude.max()
    assert got.amin == magnitude[magnitude > 0].min()
    with np.errstate(over="ignore"):
        assert got.total == pytest.approx(finite.sum(), nan_ok=True)
        assert got.total_sq == pytest.approx((finite**2).sum())
    binades = np.frexp(finite[finite != 0])[1] - 1
    values, counts = np.unique(binades, return_counts=True)
    assert got.exponents == dict(zip(values.tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_low_and_high_are_what_a_reduction_gives(dtype: torch.dtype) -> None:
    x = every_code(dtype)
    x = x[~x.float().isnan()] if dtype.itemsize < 8 else x[~x.isnan()]
    got = summarize(x)
    assert (got.low, got.high) == (x.double().min().item(), x.double().max().item())


def test_low_and_high_are_nan_when_an_element_is() -> None:
    got = summarize(torch.tensor([1.0, math.nan, 3.0]))
    assert got.low is not None
    assert got.high is not None
    assert math.isnan(got.low)
    assert math.isnan(got.high)
    assert (got.amax, got.amin) == (3.0, 1.0)


def test_sums_of_squares_do_not_overflow_where_the_format_would() -> None:
    got = summarize(torch.tensor([3e30, -4e30]))
    assert got.total_sq == pytest.approx(25e60)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8, torch.bool])
def test_integers_have_extremes_and_zeros(dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 1, 0, 1]).to(dtype)
    got = summarize(x)
    assert (got.low, got.high, got.zero, got.total) == (0.0, 1.0, 2, 3.0)
    assert got.is_finite


def test_a_complex_tensor_counts_both_parts() -> None:
    got = summarize(
        torch.complex(torch.tensor([1.0, 0.0]), torch.tensor([math.inf, 2]))
    )
    assert (got.n, got.pos_inf, got.zero, got.amax) == (4, 1, 1, 2.0)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr], ids=str)
def test_a_sparse_tensor_counts_what_it_stores(layout: torch.layout) -> None:
    x = torch.tensor([[0.0, -3.0], [5.0, 0.0]]).to_sparse(layout=layout)
    got = summarize(x)
    assert (got.n, got.low, got.high, got.zero) == (2, -3.0, 5.0, 0)
    assert extremes(x).tolist() == [-3.0, 5.0]


def test_an_empty_tensor_is_the_identity_of_merge() -> None:
    assert summarize(torch.empty(0, 3)) == Summary.empty()


def test_a_tensor_without_finite_elements_has_no_magnitudes() -> None:
    got = summarize(torch.full((2, 2), math.inf))
    assert (got.amax, got.amin, got.total) == (None, None, 0.0)


def test_strides_do_not_matter() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert summarize(x.permute(2, 0, 1)[::2]) == summarize(
        x.permute(2, 0, 1)[::2].contiguous()
    )


def test_chunks_merge_to_the_summary_of_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = every_code(torch.float16)
    whole = summarize(x, exponents=True)
    monkeypatch.setattr(statistics, "CHUNK", 1000)
    parts = summarize(x, exponents=True)
    assert parts.total == pytest.approx(whole.total)
    assert parts.total_sq == pytest.approx(whole.total_sq)
    for field in ("n", "nan", "pos_inf", "neg_inf", "zero", "subnormal", "exponents"):
        assert getattr(parts, field) == getattr(whole, field)
    assert (parts.amax, parts.amin) == (whole.amax, whole.amin)


def test_a_device_without_float64_gets_float32_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statistics, "WITHOUT_FLOAT64", frozenset({"cpu"}))
    got = summarize(torch.tensor([1.0, 2.0, math.nan]))
    assert (got.total, got.total_sq, got.nan, got.amax) == (3.0, 5.0, 1, 2.0)
