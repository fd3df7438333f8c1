# SPDX-License-Identifier: Apache-2.0
"""Profiles say what they say in their files, and wrong files say what is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, get_args

import pytest
from click.testing import CliRunner

import numcheck
from numcheck.cli import cli
from numcheck.errors import ArgumentError, ArgumentTypeError
from numcheck.record.site import Family
from numcheck.report.messages import catalogue
from numcheck.simulation import Profile, Rounding, load, profile_names
from numcheck.simulation.loading import parse

if TYPE_CHECKING:
    from pathlib import Path

FAMILIES = [f for f in get_args(Family) if f]


def test_profiles_of_every_kind_of_device_are_there() -> None:
    assert set(profile_names()) >= {
        "ascend910a",
        "ascend910b",
        "bf16-accumulate",
        "float32",
        "fp16-accumulate",
        "fp8-block",
        "fp8-per-tensor",
        "gpu-tf32",
        "hif4",
        "hif8",
        "msfp16",
        "mxfp4",
        "mxfp6",
        "mxfp8",
        "nvfp4",
        "tpu-bf16",
    }


@pytest.mark.parametrize("name", profile_names())
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_profile_is_told_in_every_language(name: str, language: str) -> None:
    assert catalogue(language)[f"simulate.profile.{name}"]  # type: ignore[arg-type]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_control_leaves_every_operator_alone(family: Family) -> None:
    assert load("float32").arithmetic(family, "float32").is_plain
    assert load("float32").arithmetic(family, "float16").is_plain


@pytest.mark.parametrize("name", profile_names())
def test_no_profile_touches_float64(name: str) -> None:
    assert all(load(name).arithmetic(f, "float64").is_plain for f in FAMILIES)


def test_saturation_holds_for_all_operators_and_narrow_factors_for_products() -> None:
    profile = load("ascend910a")
    for family in FAMILIES:
        assert profile.arithmetic(family, "float16").saturate
        assert profile.arithmetic(family, "float16").nan_to_zero
    product = profile.arithmetic("matmul", "float32")
    assert product.input == Rounding("float16", overflow="saturate")
    assert product.saturate
    assert profile.arithmetic("matmul", "float16").input is None


def test_the_right_factor_and_gradients_have_formats_of_their_own() -> None:
    block = load("fp8-block").arithmetic("matmul", "float32")
    assert block.factor("left") == Rounding("fp8_block_1x128")
    assert block.factor("right") == Rounding("fp8_block_128x128")
    tensor = load("fp8-per-tensor").arithmetic("matmul", "float32")
    assert tensor.gradient == Rounding("float8_e5m2/tensor")
    assert tensor.factor("right") == tensor.input


def test_the_first_rule_that_covers_an_operator_counts() -> None:
    text = """
    fused = "truncate"
    [[rule]]
    families = ["matmul"]
    dtypes = ["float32"]
    input = "tf32"
    [[rule]]
    families = ["matmul", "exp"]
    input = "bfloat16"
    fused = "wide"
    """
    profile = parse(text, "mine")
    assert profile.arithmetic("matmul", "float32").input == Rounding("tf32")
    assert profile.arithmetic("matmul", "float32").fused == "truncate"
    assert profile.arithmetic("matmul", "float16").input == Rounding("bfloat16")
    assert profile.arithmetic("exp", "float32").fused == "wide"
    assert profile.arithmetic("log", "float32").fused == "truncate"


def test_a_file_of_the_user_is_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('overflow = "saturate"\n', "utf-8")
    profile = load(path)
    assert profile.arithmetic("add", "bfloat16").saturate
    assert load(profile) is profile
    assert isinstance(profile, Profile)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("overflow = ", "mine is not TOML"),
        ("overflw = 'saturate'", "unknown key 'overflw'; did you mean 'overflow'"),
        ("overflow = 'wrap'", "overflow is one of ieee, saturate, got 'wrap'"),
        ("[[rule]]\ninput = 'fp9'", "mine, rule 1: input: .*fp9"),
        ("input = 8", "input is a format's name, got 8"),
        ("input = 'e4m3/row'", "after the slash"),
        ("[[rule]]\nfamilies = ['matmull']", r"families is a list of .*'matmull'"),
        ("[[rule]]\nfamilies = 'matmul'", r"families is a list of"),
        ("dtypes = ['float64']", r"dtypes is a list of float32"),
        ("chunk = 0", "chunk is a positive number, got 0"),
        ("accumulator = 'mxfp8'", "accumulator .* scalar"),
        ("accumulator = 'hif8'", "accumulator .* scalar"),
        ("families = ['exp']\naccumulator = 'bf16'", "accumulator is about sums"),
        ("rule = 3", r"\[\[rule\]\]"),
    ],
)
def test_a_wrong_file_is_told_where_it_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        parse(text, "mine")


def test_a_file_that_is_no_text_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\x93NUMPY")
    with pytest.raises(ArgumentError, match=r"mine\.toml is not TOML"):
        load(tmp_path / "mine.toml")


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(ArgumentError, match="did you mean 'tpu-bf16'"):
        load("tpu-bf-16")


def test_what_is_no_profile_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="got int"):
        load(3)  # type: ignore[arg-type]


def test_simulate_refuses_what_cannot_be_called() -> None:
    with pytest.raises(ArgumentTypeError, match="got int"):
        numcheck.simulate(3, "mxfp8")


def test_simulate_refuses_an_unknown_profile_before_anything_runs() -> None:
    with pytest.raises(ArgumentError, match="no profile"):
        numcheck.simulate(lambda x: x, "no such device")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_command_lists_every_profile(language: str) -> None:
    out = CliRunner().invoke(cli, ["profiles", "--lang", language])
    assert out.exit_code == 0
    assert all(name in out.output for name in profile_names())


def test_the_command_shows_what_a_profile_does() -> None:
    out = CliRunner().invoke(cli, ["profiles", "bf16-accumulate"])
    assert "sums in bfloat16, rounded every 16" in out.output


def test_the_command_gives_all_profiles_as_data() -> None:
    out = CliRunner().invoke(cli, ["profiles", "--json"])
    found = {p["name"]: p["rules"] for p in json.loads(out.output)}
    assert set(found) == set(profile_names())
    assert found["gpu-tf32"][0]["input"]["mode"] == "nearest_away"
