# SPDX-License-Identifier: Apache-2.0
"""Integers and fixed point saturate or wrap as two's complement does."""

from __future__ import annotations

import numpy as np
import pytest

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.formats import (
    Affine,
    affine_decode,
    affine_encode,
    affine_for,
    encode,
    get,
    quantize,
)
from tests.core.formats.golden import vectors

KEYS = [k for k in vectors("special") if k.startswith("fixed/") and k != "fixed/x"]


@pytest.mark.parametrize("key", KEYS)
def test_golden_vectors_match_bit_for_bit(key: str) -> None:
    golden = vectors("special")
    _, name, overflow = key.split("/")
    result = quantize(golden["fixed/x"], name, overflow=overflow)
    assert result.tobytes() == (golden[key] + 0.0).tobytes()


@pytest.mark.parametrize(("count", "dtype"), [(5000, "f8"), (300_000, "f4")])
@pytest.mark.parametrize("name", ["int8", "int4", "int16", "uint8", "q8.8", "uq4.4"])
def test_wrapping_is_what_integer_arithmetic_does(
    name: str, count: int, dtype: str
) -> None:
    fmt = get(name)
    x = np.random.default_rng(0).uniform(-3, 3, count) * fmt.max
    x = x.astype(dtype)
    steps = np.ldexp(x.astype(float), fmt.fraction_bits)
    steps = np.rint(steps).astype(np.int64)
    wrapped = steps & ((1 << fmt.bits) - 1)
    if fmt.signed:
        wrapped = np.where(
            wrapped >> (fmt.bits - 1), wrapped - (1 << fmt.bits), wrapped
        )
    expected = np.ldexp(wrapped.astype(float), -fmt.fraction_bits)
    assert (quantize(x, name, overflow="wrap") == expected).all()
    clipped = np.clip(
        np.ldexp(steps.astype(float), -fmt.fraction_bits), fmt.min, fmt.max
    )
    assert (quantize(x, name) == clipped).all()


def test_codes_of_integers_are_the_integers() -> None:
    codes = encode([-1.0, 127.4, -200.0], "int8")
    assert codes.dtype == np.int8
    assert codes.tolist() == [-1, 127, -128]
    assert encode([1.5], "q8.8").tolist() == [384]


def test_the_largest_wide_integer_is_never_exceeded() -> None:
    assert encode([1e30, -1e30], "int64").tolist() == [2**63 - 1024, -(2**63)]


def test_an_affine_mapping_covers_the_range_of_the_data() -> None:
    x = np.random.default_rng(0).uniform(-1, 3, 1000)
    for symmetric, fmt in ((True, "int8"), (False, "uint8"), (False, "int8")):
        mapping = affine_for(x, fmt, symmetric=symmetric)
        codes = affine_encode(x, mapping)
        error = np.abs(affine_decode(codes, mapping) - x)
        # An asymmetric zero point is whole, which moves the ends by half a step.
        assert (
            error.max() <= np.asarray(mapping.scale) * (0.5 if symmetric else 1) + 1e-12
        )
        assert affine_decode(affine_encode([0.0], mapping), mapping) == 0.0


def test_affine_codes_have_one_scale_a_channel() -> None:
    x = np.array([[1.0, 2.0], [10.0, 20.0]])
    mapping = Affine(get("int8"), np.array([[0.1], [1.0]]), np.array([[0], [5]]))
    assert affine_encode(x, mapping).tolist() == [[10, 20], [15, 25]]


def test_affine_codes_of_specials_are_the_zero_point_and_the_limits() -> None:
    mapping = Affine(get("int8"), 0.5, 3)
    codes = affine_encode([np.nan, np.inf, -np.inf, 1e9], mapping)
    assert codes.tolist() == [3, 127, -128, 127]
    wrapped = affine_encode([64.0], mapping, overflow="wrap")
    assert wrapped.tolist() == [131 - 256]


def test_unusable_mappings_are_refused() -> None:
    with pytest.raises(ArgumentError, match="positive"):
        affine_encode([1.0], Affine(get("int8"), 0.0))
    with pytest.raises(ArgumentError, match="integer format"):
        affine_for([1.0], "fp16")
    for use in (affine_encode, affine_decode):
        with pytest.raises(ArgumentTypeError, match="affine_for"):
            use([1], "int8")


@pytest.mark.parametrize("size", [5e-324, 1.7e308])
@pytest.mark.parametrize("symmetric", [True, False])
def test_a_mapping_of_the_ends_of_float64_has_a_usable_scale(
    size: float, symmetric: bool
) -> None:
    mapping = affine_for([size, -size], "int8", symmetric=symmetric)
    assert 0 < mapping.scale < np.inf
    decoded = affine_decode(affine_encode([size, -size], mapping), mapping)
    assert np.abs(decoded - [size, -size]).max() <= mapping.scale
