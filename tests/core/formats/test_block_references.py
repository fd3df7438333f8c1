# SPDX-License-Identifier: Apache-2.0
"""BFP and scaled FP8 blocks give what their definitions give in exact fractions."""

from __future__ import annotations

import bisect
from fractions import Fraction

import numpy as np
import pytest

from numcheck.formats import block_report, get, quantize
from tests.core.formats.rational import magnitudes

# Bits of magnitude, and the lowest and highest exponent that a block can share.
BFP = {
    "bfp8_a": (7, -15, 15),
    "bfp4_a": (3, -15, 15),
    "bfp2_a": (1, -15, 15),
    "bfp8_b": (7, -127, 127),
    "bfp4_b": (3, -127, 127),
    "bfp2_b": (1, -127, 127),
}
# 127.5, 0.5 and 1.5 units of bfp8 are ties; the block's exponent is 0.
UNIT_BLOCK = [1, -1.984375, 0.5, 0.015625, 0.0078125, 0.0234375, 1.9921875, 0.1, -0.3]
UNITS = {
    "bfp8": [64, -127, 32, 1, 0, 2, 127, 6, -19],
    "bfp4": [4, -7, 2, 0, 0, 0, 7, 0, -1],
    "bfp2": [1, -1, 0, 0, 0, 0, 1, 0, 0],
}


def exponent_of(size: Fraction) -> int:
    """Returns floor(log2(size))."""
    power = size.numerator.bit_length() - size.denominator.bit_length()
    return power if Fraction(2) ** power <= size else power - 1


def shared_exponent(
    block: list[Fraction], bits: int, lowest: int, highest: int
) -> list[Fraction]:
    """Returns a block as whole multiples of its unit, |multiple| < 2**bits."""
    amax = max(abs(x) for x in block)
    shared = min(max(exponent_of(amax), lowest), highest) if amax else lowest
    unit, most = Fraction(2) ** (shared - bits + 1), 2**bits - 1
    return [min(max(round(x / unit), -most), most) * unit for x in block]


def single(exact: Fraction) -> Fraction:
    """Returns the float32 nearest to a number."""
    unit = Fraction(2) ** (max(exponent_of(abs(exact)), -126) - 23 if exact else 0)
    return round(exact / unit) * unit


def nearest(exact: Fraction, values: list[Fraction]) -> Fraction:
    """Returns the value nearest to a number, of two the one with the even code."""
    above = bisect.bisect_left(values, abs(exact))
    places = [place for place in (above - 1, above) if 0 <= place < len(values)]
    best = min(places, key=lambda p: (abs(values[p] - abs(exact)), p % 2))
    return -values[best] if exact < 0 else values[best]


def scaled_e4m3(block: np.ndarray) -> tuple[Fraction, list[Fraction]]:
    """Returns scale and values: amax becomes 448 under a scale that is a float32."""
    exact = [Fraction(float(x)) for x in block.ravel()]
    scale = single(max(abs(x) for x in exact) / 448)
    codes = magnitudes(get("float8_e4m3fn"))
    return scale, [single(nearest(x / scale, codes) * scale) for x in exact]


def fractions(x: np.ndarray) -> list[Fraction]:
    return [Fraction(float(value)) for value in x.ravel()]


def uneven(*shape: int, spread: int) -> np.ndarray:
    """Returns numbers of many magnitudes, no block without a number but zero."""
    rng = np.random.default_rng(5)
    powers = np.exp2(rng.integers(-spread, spread + 1, shape))
    x = (rng.standard_normal(shape) * powers).astype(np.float32)
    x[..., 3] = 0
    return x


@pytest.mark.parametrize("power", [-14, 0, 15], ids="at 2**{}".format)
@pytest.mark.parametrize("name", BFP)
def test_bfp_golden_blocks_are_these_multiples_of_their_unit(
    name: str, power: int
) -> None:
    x = np.zeros((1, 16))
    x[0, : len(UNIT_BLOCK)] = UNIT_BLOCK
    report = block_report(np.ldexp(x, power), name)
    unit = 2.0 ** (power - BFP[name][0] + 1)
    expected = UNITS[name[:4]]
    assert (report.values[0, : len(expected)] / unit).tolist() == expected
    assert not report.values[0, len(expected) :].any()
    assert report.scale == 2.0**power


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BFP)
def test_bfp_is_what_exact_fractions_give(name: str, dtype: type) -> None:
    blocks = [uneven(40, 16, spread=spread) for spread in (0, 3, 9)]
    moved = np.ldexp(uneven(60, 16, spread=2), np.arange(-30, 30)[:, None])
    x = np.concatenate([*blocks, moved]).astype(dtype)
    result = quantize(x, name)
    for block, values in zip(x, result, strict=True):
        assert fractions(values) == shared_exponent(fractions(block), *BFP[name])
    assert (np.signbit(result) == np.signbit(x)).all()


@pytest.mark.parametrize("name", ["bfp8", "bfp4", "bfp2"])
def test_five_bits_of_exponent_end_where_eight_go_on(name: str) -> None:
    most = {"bfp8": 127 / 64, "bfp4": 7 / 4, "bfp2": 1.0}[name]
    large, small = np.full(16, 2.0**18), np.full(16, 2.0**-24)
    assert quantize(large, f"{name}_b").tolist() == large.tolist()
    assert quantize(large, f"{name}_a").tolist() == [most * 2.0**15] * 16
    assert quantize(small, f"{name}_b").tolist() == small.tolist()
    assert quantize(small, f"{name}_a").tolist() == [0.0] * 16


@pytest.mark.parametrize("spread", [0, 12, 40])
def test_blocks_of_1_by_128_are_what_exact_fractions_give(spread: int) -> None:
    x = uneven(5, 300, spread=spread)
    report = block_report(x, "deepseek_1x128")
    assert report.scale.shape == (5, 3)
    for row in range(5):
        for block in range(3):
            part = np.s_[row, 128 * block : 128 * block + 128]
            scale, values = scaled_e4m3(x[part])
            assert Fraction(float(report.scale[row, block])) == scale
            assert fractions(report.values[part]) == values
    assert (quantize(x, "deepseek_1x128") == report.values).all()


@pytest.mark.parametrize("spread", [0, 20])
def test_tiles_of_128_by_128_are_what_exact_fractions_give(spread: int) -> None:
    x = uneven(130, 150, spread=spread)
    report = block_report(x, "deepseek_128x128")
    assert report.scale.shape == (2, 2)
    for row in range(2):
        for column in range(2):
            rows = slice(128 * row, 128 * row + 128)
            part = np.s_[rows, 128 * column : 128 * column + 128]
            scale, values = scaled_e4m3(x[part])
            assert Fraction(float(report.scale[row, column])) == scale
            assert fractions(report.values[part]) == values
    assert (quantize(x, "deepseek_128x128") == report.values).all()


def test_a_block_whose_largest_is_the_largest_element_loses_no_code() -> None:
    codes = [float(value) for value in magnitudes(get("float8_e4m3fn"))]
    x = np.asarray([[*codes, -448.0]], np.float32)
    assert x.shape == (1, 128)
    for power in (-100, 0, 100):
        moved = np.ldexp(x, power)
        report = block_report(moved, "deepseek_1x128")
        assert report.scale == 2.0**power
        assert (report.values == moved).all()
