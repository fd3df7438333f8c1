# SPDX-License-Identifier: Apache-2.0
"""Block formats give the golden values, along any axis, padded, tiled or whole."""

from __future__ import annotations

import math

import numpy as np
import pytest

from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.formats import block_names, block_report, lookup, quantize
from tests.core.formats.golden import same, vectors

MX = [k[: -len("/values")] for k in vectors("blocks") if k.endswith("/values")]
MSFP = [k for k in vectors("special") if k.startswith("msfp/") and k != "msfp/x"]
ALONG_AN_AXIS = [n for n in block_names() if isinstance(lookup(n).block, int)]
# A scale that is no power of two moves with the largest element.
POWER_OF_TWO = [n for n in block_names() if lookup(n).scale.kind == "scale"]
RULES = ["floor", "ceil", "rceil", "even"]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("key", MX)
def test_mx_golden_vectors_match_bit_for_bit(key: str) -> None:
    golden = vectors("blocks")
    name, rule = key.split("/")
    x, expected = golden["x"], golden[f"{key}/values"]
    report = block_report(x.astype(np.float64), name, scale_rule=rule)
    assert same(report.values, expected)
    powers = np.ldexp(1.0, golden[f"{key}/exponents"].astype(int))
    assert (report.scale[:, 0] == powers).all()
    with np.errstate(over="ignore"):  # 2**128, which some rules reach, is Inf here
        narrow = expected.astype(np.float32)
    assert same(quantize(x, name, scale_rule=rule), narrow)
    assert same(block_report(x, name, scale_rule=rule).values, narrow)


@pytest.mark.parametrize("key", MSFP)
def test_msfp_golden_vectors_match_bit_for_bit(key: str) -> None:
    golden = vectors("special")
    _, name, rounding = key.split("/")
    assert same(quantize(golden["msfp/x"], name, rounding=rounding), golden[key])


def test_nvfp4_golden_vectors_match_bit_for_bit() -> None:
    golden = vectors("special")
    report = block_report(golden["nvfp4/x"], "nvfp4")
    scales = golden["nvfp4/block_scale"] * golden["nvfp4/global_scale"]
    assert same(report.values, golden["nvfp4/dq"])
    assert same(report.scale.astype(np.float32), scales)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "name", ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "mxint8"]
)
def test_the_fast_method_gives_what_the_exact_one_gives(name: str, rule: str) -> None:
    bits = np.random.default_rng(3).integers(0, 1 << 32, 64 * 32, np.uint32)
    every_size = bits.view(np.float32).reshape(-1, 32)
    scaled = normal(400, 32) * np.exp2(np.arange(400) % 280 - 150)[:, None]
    powers = np.exp2(np.arange(-149.0, 128.0)).astype(np.float32)[:, None]
    with np.errstate(over="ignore"):
        x = np.concatenate(
            [every_size, scaled.astype(np.float32), powers * np.ones(32, np.float32)]
        )
    x[0], x[1, 5], x[2, 6] = 0, np.nan, -np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        exact = block_report(x, name, scale_rule=rule).values
        assert same(quantize(x, name, scale_rule=rule), exact)


@pytest.mark.parametrize("name", ALONG_AN_AXIS)
def test_blocks_run_along_the_axis_that_is_named(name: str) -> None:
    x = normal(3, 70, 5)
    result = quantize(x, name, axis=1)
    if lookup(name).tensor_scale is None:
        for i in range(3):
            for j in range(5):
                assert same(result[i, :, j], quantize(x[i, :, j], name))
    assert same(result, quantize(x.swapaxes(1, 2), name).swapaxes(1, 2))


def test_rows_are_padded_and_never_joined() -> None:
    x = normal(4, 40)
    whole = quantize(x, "mxfp4")
    for row, expected in zip(x, whole, strict=True):
        assert same(quantize(row, "mxfp4"), expected)
    padded = np.zeros((4, 64), np.float32)
    padded[:, :40] = x
    assert same(quantize(padded, "mxfp4")[:, :40], whole)
    assert block_report(x, "mxfp4").scale.shape == (4, 2)


def test_tiles_cover_the_last_two_axes() -> None:
    x = normal(2, 200, 300)
    report = block_report(x, "fp8_block_128x128")
    assert report.scale.shape == (2, 2, 3)
    padded = np.zeros((2, 256, 384), np.float32)
    padded[:, :200, :300] = x
    for i in range(2):
        for r in range(2):
            for c in range(3):
                rows, columns = (
                    slice(128 * r, 128 * r + 128),
                    slice(128 * c, 128 * c + 128),
                )
                tile = padded[i, rows, columns]
                expected = quantize(tile, "e4m3", block_size="tensor")
                kept = report.values[i, rows, columns]
                assert same(kept, expected[: kept.shape[0], : kept.shape[1]])


@pytest.mark.parametrize("size", [1000, 100_000])
def test_one_scale_for_the_tensor_maps_amax_to_the_largest_element(size: int) -> None:
    x = normal(size)
    report = block_report(x, "e4m3", block_size="tensor")
    assert report.scale.shape == ()
    assert report.scale == np.float32(np.abs(x).max() / 448)
    expected = quantize(x / np.float64(report.scale), "e4m3", overflow="saturate")
    assert same(report.values, (expected * report.scale).astype(np.float32))
    assert same(quantize(x, "e4m3", block_size="tensor"), report.values)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_scale_a_channel_treats_each_channel_alone(axis: int) -> None:
    x = normal(4, 6, 7)
    result = quantize(x, "int8", block_size="channel", axis=axis)
    channels = np.moveaxis(x, axis, 0)
    for channel, values in zip(channels, np.moveaxis(result, axis, 0), strict=True):
        assert same(quantize(channel, "int8", block_size="tensor"), values)


def test_a_large_block_is_one_block() -> None:
    x = normal(2, 150_000)
    report = block_report(x, "e4m3", block_size=100_000)
    assert report.scale.shape == (2, 2)
    assert same(quantize(x, "e4m3", block_size=100_000), report.values)
    for block in (slice(0, 100_000), slice(100_000, None)):
        expected = quantize(x[1, block], "e4m3", block_size="tensor")
        assert same(report.values[1, block], expected)


def test_hif4_spends_its_bits_as_its_definition_says() -> None:
    x = np.zeros(64, np.float32)
    x[0], x[1], x[8], x[16] = 7.0, 3.0, 1.75, 3.4
    report = block_report(x, "hif4")
    assert report.scale == 1.0
    # In its group of four the largest needs both factors of two: spacing 1.
    assert report.values[:2].tolist() == [7.0, 3.0]
    assert report.values[8] == 1.75
    # From 2 on one factor is needed: spacing 0.5.
    assert report.values[16] == 3.5
    assert lookup("hif4").element_max == 7.0
    assert lookup("hif4").bits_per_value == 4.5


def test_hif4_is_between_mxfp4_and_mxfp6() -> None:
    x = normal(200, 64)
    error = {
        name: np.square(quantize(x, name) - x).sum()
        for name in ("mxfp4", "hif4", "mxfp6")
    }
    assert error["mxfp6"] < error["hif4"] < error["mxfp4"]


def test_the_report_counts_what_each_block_lost() -> None:
    x = np.array([[6.0, 7.5, 0.1, 1.0], [1.0, 1.0, 1.0, 1.0], [0, 0, 0, 0]])
    report = block_report(x, "mxfp4")
    assert report.values.tolist() == [[6, 6, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert report.flushed.ravel().tolist() == [0.25, 0, 0]
    assert report.clipped.ravel().tolist() == [0.25, 0, 0]
    signal, noise = np.square(x[0]).sum(), 1.5**2 + 0.1**2
    assert report.sqnr_db[0, 0] == pytest.approx(10 * math.log10(signal / noise))
    assert report.sqnr_db[1:].ravel().tolist() == [math.inf, math.inf]


def test_a_block_with_nan_or_inf_is_lost_whole_and_alone() -> None:
    x = normal(3, 32)
    x[1, 3] = np.inf
    for values in (quantize(x, "mxfp8"), block_report(x, "mxfp8").values):
        assert np.isnan(values[1]).all()
        assert np.isfinite(values[[0, 2]]).all()
    assert np.isnan(block_report(x, "mxfp8").scale[1])


@pytest.mark.parametrize("name", POWER_OF_TWO)
def test_quantising_a_block_twice_changes_nothing_more(name: str) -> None:
    once = quantize(normal(128, 128), name)
    assert same(quantize(once, name), once)


@pytest.mark.parametrize("name", block_names())
def test_no_element_is_further_off_than_its_block_allows(name: str) -> None:
    x = normal(128, 128)
    report = block_report(x, name)
    fmt = lookup(name)
    height, width = fmt.tile
    scale = np.repeat(np.repeat(report.scale, height, 0), width, 1)[:128, :128]
    limit = np.minimum(np.abs(x), fmt.element_max * scale)
    coarsest = scale * fmt.element_max / (2**fmt.element.precision - 1)
    assert (np.abs(np.abs(report.values) - limit) <= coarsest * (1 + 1e-6)).all()


def test_arguments_that_do_not_fit_are_named() -> None:
    x = normal(4, 4)
    with pytest.raises(ArgumentError, match="did you mean 'rceil'"):
        quantize(x, "mxfp4", scale_rule="rcel")
    with pytest.raises(ArgumentError, match="leave it out"):
        quantize(x, "nvfp4", scale_rule="floor")
    with pytest.raises(ArgumentError, match="axis 2"):
        quantize(x, "mxfp4", axis=2)
    with pytest.raises(ArgumentError, match="two axes"):
        quantize(x[0], "fp8_block_128x128")
    with pytest.raises(ArgumentError, match="positive"):
        quantize(x, "mxfp4", block_size=0)
    with pytest.raises(ArgumentTypeError, match="block_size"):
        quantize(x, "mxfp4", block_size=1.5)
    with pytest.raises(ArgumentError, match="block_size must be one of"):
        quantize(x, "mxfp4", block_size="row")
    with pytest.raises(ArgumentError, match="no shared scale"):
        block_report(x, "fp16")
    with pytest.raises(ArgumentError, match="saturates"):
        quantize(x, "mxfp4", overflow="wrap")


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1,)], ids=str)
def test_odd_shapes_are_kept(shape: tuple[int, ...]) -> None:
    for name in ("mxfp4", "nvfp4", "hif4", "msfp12"):
        assert quantize(np.ones(shape), name).shape == shape
        assert block_report(np.ones(shape, np.float32), name).values.shape == shape


def test_a_result_can_be_written_where_it_is_wanted() -> None:
    x, out = normal(4, 64), np.empty((4, 64), np.float32)
    for options in ({}, {"axis": 0}, {"block_size": "channel", "axis": 1}):
        assert quantize(x, "mxfp8", out=out, **options) is out
        assert same(out, quantize(x, "mxfp8", **options))


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_a_result_can_be_written_over_its_input(name: str) -> None:
    x = normal(64, 96)
    x[3, 5] = np.nan
    expected = quantize(x, name)
    assert same(quantize(x, name, out=x), expected)
    assert same(x, expected)


def test_elements_without_a_negative_zero_give_none() -> None:
    x = np.array([448.0, -1e-9, -0.0, -2.0] * 8, np.float32)
    narrow = quantize(x, "e4m3fnuz", block_size=32, scale_rule="floor")
    wide = quantize(x.astype(float), "e4m3fnuz", block_size=32, scale_rule="floor")
    assert narrow[:4].tolist() == [448.0, 0.0, 0.0, -2.0]
    assert not np.signbit(narrow[1:3]).any()
    assert same(narrow, wide.astype(np.float32))
