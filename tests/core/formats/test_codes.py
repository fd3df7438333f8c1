# SPDX-License-Identifier: Apache-2.0
"""Every code of every format of up to 16 bits means what others say it means."""

from __future__ import annotations

from fractions import Fraction

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.formats import code_values, decode, encode, get, names, quantize
from tests.core.formats import rational
from tests.core.formats.golden import same

NARROW = [n for n in names() if get(n).bits <= 16]
FLOATS = [n for n in NARROW if get(n).kind == "float"]
MADE_UP = ["e2m2", "e3m7", "e6m9", "e8m3", "e5m2"]
IN_ML_DTYPES = [n for n in NARROW if hasattr(ml_dtypes, n) and get(n).bits >= 4]
IN_GFLOAT = {
    "float16": gfloat.formats.format_info_binary16,
    "bfloat16": gfloat.formats.format_info_bfloat16,
    "float8_e5m2": gfloat.formats.format_info_ocp_e5m2,
    "float8_e4m3fn": gfloat.formats.format_info_ocp_e4m3,
    "float6_e2m3fn": gfloat.formats.format_info_ocp_e2m3,
    "float6_e3m2fn": gfloat.formats.format_info_ocp_e3m2,
    "float4_e2m1fn": gfloat.formats.format_info_ocp_e2m1,
    "float8_e8m0fnu": gfloat.formats.format_info_ocp_e8m0,
}


def all_codes(name: str) -> np.ndarray:
    return np.arange(1 << get(name).bits)


def python_integers(codes: np.ndarray, bits: int) -> np.ndarray:
    """Returns two's complement codes as the integers they stand for."""
    return np.where(codes >= 1 << (bits - 1), codes - (1 << bits), codes)


@pytest.mark.parametrize("name", [*FLOATS, *MADE_UP])
def test_every_code_has_the_value_that_fractions_give(name: str) -> None:
    fmt = get(name)
    codes = all_codes(name)
    expected = [rational.value_of(int(code), fmt) for code in codes]
    sign = np.where(codes >> (fmt.bits - 1), -1.0, 1.0)
    floats = np.array([float(v) for v in expected])
    assert same(decode(codes, fmt).astype(np.float64), np.copysign(floats, sign))
    assert all(Fraction(float(v)) == v for v in expected if isinstance(v, Fraction))


@pytest.mark.parametrize("name", IN_ML_DTYPES)
def test_every_code_has_the_value_that_ml_dtypes_gives(name: str) -> None:
    codes = all_codes(name)
    if get(name).kind == "integer":
        dtype = np.dtype(getattr(ml_dtypes, name))
        signed = get(name).signed
        numbers = python_integers(codes, get(name).bits) if signed else codes
        expected = numbers.astype(dtype).astype(np.float32)
    else:
        stored = codes.astype(np.uint8 if get(name).bits <= 8 else np.uint16)
        expected = stored.view(getattr(ml_dtypes, name)).astype(np.float32)
    assert same(decode(codes, name), expected)


@pytest.mark.parametrize("name", IN_GFLOAT)
def test_every_code_has_the_value_that_gfloat_gives(name: str) -> None:
    codes = all_codes(name)
    expected = gfloat.decode_ndarray(IN_GFLOAT[name], codes)
    assert same(decode(codes, name).astype(np.float64), expected)


def test_float16_codes_are_those_of_numpy() -> None:
    codes = np.arange(1 << 16, dtype=np.uint16)
    assert same(decode(codes, "fp16"), codes.view(np.float16).astype(np.float32))


def test_wide_codes_are_those_of_numpy() -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 64, 10_000, np.uint64)
    assert same(decode(bits, "float64"), bits.view(np.float64))
    words = bits.astype(np.uint32)
    assert same(decode(words, "float32"), words.view(np.float32))
    # tf32 and hf32 are the upper bits of a float32.
    for name, width in (("tf32", 19), ("hf32", 20)):
        codes = words >> np.uint32(32 - width)
        upper = (codes << np.uint32(32 - width)).view(np.float32)
        assert same(decode(codes, name), upper)


def test_hifloat8_has_the_precision_its_definition_gives_each_exponent() -> None:
    values = code_values(get("hif8"))
    positive = np.sort(values[np.isfinite(values) & (values > 0)])
    exponents = np.frexp(positive)[1] - 1
    found, counts = np.unique(exponents, return_counts=True)
    expected = {
        **dict.fromkeys(range(-22, -15), 1),
        **dict.fromkeys([*range(-15, -7), *range(8, 15)], 2),
        15: 1,
        **dict.fromkeys([*range(-7, -3), *range(4, 8)], 4),
        **dict.fromkeys(range(-3, 4), 8),
    }
    assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == expected
    assert np.isnan(values[0x80])
    assert values[0x6F] == np.inf
    assert values[0xEF] == -np.inf


@pytest.mark.parametrize("name", [*NARROW, *MADE_UP])
def test_encoding_the_value_of_a_code_gives_the_code(name: str) -> None:
    fmt = get(name)
    codes = all_codes(name)
    values = decode(codes, fmt)
    known = ~np.isnan(values)
    found = encode(values[known], fmt).astype(np.int64) & ((1 << fmt.bits) - 1)
    assert (found == codes[known]).all()


@pytest.mark.parametrize("name", [*NARROW, *MADE_UP])
def test_quantising_the_value_of_a_code_changes_nothing(name: str) -> None:
    values = decode(all_codes(name), name)
    assert same(quantize(values, name), values)
    assert same(
        quantize(values.astype(np.float64), name), values.astype(np.float64)
    ) or (get(name).kind == "integer")


@pytest.mark.parametrize("name", [n for n in names() if get(n).has_nan])
def test_nan_has_a_code_that_means_nan(name: str) -> None:
    assert np.isnan(decode(encode([np.nan], name), name)).all()


def test_nan_without_a_code_is_an_error_and_not_a_number() -> None:
    with pytest.raises(ArgumentError, match="1 of 2"):
        encode([np.nan, 1.0], "fp4")


def test_codes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match="16"):
        decode([16], "fp4")
    with pytest.raises(ArgumentTypeError, match="integers"):
        decode([1.0], "fp4")
    assert decode([], "fp4").size == 0
    assert decode([-1, 255], "int8").tolist() == [-1.0, -1.0]
