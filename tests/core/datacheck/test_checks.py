# SPDX-License-Identifier: Apache-2.0
"""Each check on data with one planted fault, and on data without any."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from numcheck.datacheck import Settings, Stream, check_arrays
from tests.core.datacheck.healthy import HEALTHY


def normal(rows: int = 200, columns: int = 5) -> np.ndarray[Any, Any]:
    data = np.random.default_rng(3).normal(size=(rows, columns))
    return data.astype(np.float32)


def planted(row: int, column: int, value: float) -> np.ndarray[Any, Any]:
    x = normal()
    x[row, column] = value
    return x


def column_of(values: Any) -> np.ndarray[Any, Any]:
    x = normal()
    x[:, 2] = values
    return x


def named(array: Any, name: str = "x", **known: Any) -> dict[str, str]:
    """Return the place of each problem by its id, notes among them."""
    problems = check_arrays({name: np.asarray(array)}, Settings(**known))
    return {p.id: p.place for p in problems}


@pytest.mark.parametrize("name", sorted(HEALTHY))
@pytest.mark.parametrize("dtype", [None, "float32", "float16", "bfloat16"])
def test_healthy_data_are_not_accused(name: str, dtype: str | None) -> None:
    settings = Settings(dtype, classes=10)
    found = check_arrays({name: HEALTHY[name]}, settings)
    assert [p for p in found if p.severity != "note"] == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_element_that_is_not_finite_is_found_with_its_row(value: float) -> None:
    assert named(planted(17, 4, value)) == {"N011": "x[17, 4]"}


def test_a_column_of_nan_is_named_beside_its_elements() -> None:
    assert named(column_of(np.nan)) == {"N011": "x[0, 2]", "N012": "x[:, 2]"}


def test_a_constant_column_is_found() -> None:
    assert named(column_of(1.5)) == {"N013": "x[:, 2]"}


@pytest.mark.parametrize("value", [500.0, -500.0, 3e20])
def test_an_outlier_is_found_with_its_row_and_column(value: float) -> None:
    assert named(planted(17, 4, value)) == {"N014": "x[17, 4]"}


def test_an_outlier_does_not_hide_behind_its_own_spread() -> None:
    x = np.array([1.0, 1.1, 0.9, 1.2, 1e6], np.float32)
    assert named(x) == {"N014": "x[4]"}


@pytest.mark.parametrize("value", [-999.0, -9999.0, 1e30, 3.4028234663852886e38])
@pytest.mark.parametrize("times", [1, 40, 180])
def test_a_sentinel_is_found_even_where_most_values_are_missing(
    value: float, times: int
) -> None:
    x = normal()
    x[:times, 1] = value
    assert named(x) == {"N015": "x[0, 1]"}


def test_minus_999_within_the_range_of_a_column_is_a_value() -> None:
    x = np.linspace(-2000, 2000, 400)
    x[7] = -999
    assert "N015" not in named(x)
    assert "N015" not in named(np.append(np.linspace(-998, 900, 300), -999.0))


def test_minus_one_counts_only_where_nothing_else_is_negative() -> None:
    x = np.random.default_rng(0).random(500) * 9
    x[:20] = -1
    assert named(x) == {"N015": "x[0]"}
    x[30] = -0.5
    assert named(x) == {}


def test_integers_have_sentinels_too() -> None:
    x = np.random.default_rng(0).integers(0, 60, 500)
    assert named(x) == {}
    x[40] = -9223372036854775808
    assert named(x)["N015"] == "x[40]"
    x[40:43] = -1
    assert named(x) == {"N015": "x[40]"}


def test_a_clipped_sample_of_sound_is_no_sentinel() -> None:
    x = np.random.default_rng(0).integers(-90, 90, 500).astype(np.int16)
    x[7] = -32768
    assert "N015" not in named(x)


def test_9999_counts_only_where_it_occurs_again_and_again() -> None:
    x = planted(3, 3, 9999.0)
    assert named(x) == {"N014": "x[3, 3]"}
    x[:4, 3] = 9999
    assert named(x) == {"N015": "x[0, 3]"}


def test_raw_prices_are_not_normalised_and_one_of_them_is_no_outlier() -> None:
    assert named(column_of(np.linspace(2e4, 9e4, 200))) == {"N016": "x[:, 2]"}


def test_a_single_large_value_does_not_make_a_column_unnormalised() -> None:
    assert "N016" not in named(planted(3, 3, 1e6))


@pytest.mark.parametrize("shape", [(4, 3, 8, 8), (4, 8, 8, 3), (4, 784)])
def test_images_of_0_to_255_are_named_once(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 256, shape)
    assert named(x.astype(np.float32)) == {"N017": "x"}
    (problem,) = check_arrays({"x": x.astype(np.uint8)})
    assert (problem.id, problem.severity) == ("N017", "note")


@pytest.mark.parametrize(
    ("dtype", "value", "beyond"),
    [
        ("float16", 65504.0, False),
        ("float16", 70000.0, True),
        ("float8_e4m3fn", 500.0, True),
        ("bfloat16", 70000.0, False),
    ],
)
def test_values_beyond_the_compute_format_are_found(
    dtype: str, value: float, beyond: bool
) -> None:
    found = named(planted(9, 0, value), dtype=dtype)
    assert (found.get("N018") == "x[9, 0]") == beyond


def test_a_column_below_the_compute_format_is_found() -> None:
    tiny = column_of(np.linspace(1e-8, 1e-5, 200))
    assert named(tiny, dtype="float16") == {"N026": "x[:, 2]"}
    assert named(tiny, dtype="bfloat16") == {}


def test_timestamps_lose_their_differences_in_float32() -> None:
    t = 1.7e9 + np.linspace(0, 600, 50)
    assert len(np.unique(t.astype(np.float32))) < 10
    assert "N019" in named(t)
    assert "N019" not in named(t - t[0])
    assert "N019" not in named(t.astype(np.float32))


def test_float64_beside_half_is_a_note() -> None:
    (problem,) = check_arrays({"x": normal().astype(np.float64)}, Settings("float16"))
    assert (problem.id, problem.severity) == ("N020", "note")


def test_float64_beside_half_precision_arrays_is_a_note() -> None:
    wide, half = normal().astype(np.float64), normal().astype(np.float16)
    (problem,) = check_arrays({"half": half, "wide": wide})
    assert (problem.id, problem.severity, problem.array) == ("N020", "note", "wide")
    assert check_arrays({"wide": wide, "single": normal()}) == ()


def test_integers_too_fine_for_half_precision_are_a_note() -> None:
    prices = np.arange(0, 60_000, 3).reshape(-1, 2)
    assert np.float16(2049) == 2048  # whole numbers stop being exact
    assert named(prices, dtype="float16") == {"N020": "x"}
    assert named(prices, dtype="float32") == {}
    assert named(np.arange(2048), dtype="float16") == {}
    assert named(prices, "token_ids", dtype="float16") == {}
    half = normal().astype(np.float16)
    (problem,) = check_arrays({"half": half, "prices": prices})
    assert (problem.id, problem.severity, problem.array) == ("N020", "note", "prices")


def test_an_integer_that_int32_cannot_hold_is_found() -> None:
    x = np.array([5, 2**31, 7])
    assert named(x) == {"N021": "x[1]"}
    assert int(x.astype(np.int32)[1]) != 2**31
    assert named(np.array([5, 2**31 - 1])) == {}


def test_short_integers_whose_square_wraps_are_a_note() -> None:
    x = np.array([3, 300], np.int16)
    (problem,) = check_arrays({"x": x})
    assert (problem.id, problem.severity, problem.row) == ("N027", "note", 1)
    assert int((x * x)[1]) != 90000


@pytest.mark.parametrize(("label", "bad"), [(-1, True), (10, True), (9, False)])
def test_labels_are_held_against_the_classes(label: int, bad: bool) -> None:
    found = named([3, label, -100], "labels", classes=10)
    assert found == ({"N022": "labels[1]"} if bad else {})


def test_an_ignored_label_may_have_any_value() -> None:
    assert named([3, -1], "labels", classes=10, ignore_index=-1) == {}


def test_labels_counted_from_one_get_that_advice() -> None:
    (problem,) = check_arrays({"y": np.arange(1, 11)}, Settings(classes=10))
    assert problem.advice == ("data_labels_from_one",)


def test_floats_are_labels_where_that_is_said() -> None:
    assert named([0.0, 3.0], "kind", classes=3, labels=("kind",)) == {"N022": "kind[1]"}
    assert named([0.0, 3.0], "target", classes=3) == {}


def test_labels_that_are_all_ignored_are_found() -> None:
    assert named([[-100, -100]], "targets") == {"N023": "targets"}


@pytest.mark.parametrize(
    ("name", "mask"),
    [
        ("mask", [[True, False], [False, False]]),
        ("attention_mask", [[1, 0], [0, 0]]),
        ("src_key_padding_mask", [[False, True], [True, True]]),
        ("attn_mask", [[0.0, -np.inf], [-np.inf, -np.inf]]),
        ("attn_mask", [[0.0, -1e9], [-1e9, -1e9]]),
    ],
)
def test_a_mask_row_without_a_visible_entry_is_found(name: str, mask: Any) -> None:
    assert named(mask, name) == {"N024": f"{name}[1, …]"}


def test_divisors_of_zero_are_found() -> None:
    assert named([2, 0, 1], "counts") == {"N025": "counts[1]"}
    (problem,) = check_arrays({"group": np.array([0, 2, 2, 3])})
    assert (problem.id, problem.fields["group"]) == ("N025", 1)


@pytest.mark.parametrize(
    "dtype",
    [np.longdouble, np.float16, ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn],
)
def test_data_of_any_floating_dtype_are_checked(dtype: Any) -> None:
    x = np.array([0.5, 2.0, 1.0, 0.5]).astype(dtype)
    assert "N013" not in named(x, dtype="float16")
    assert named(np.ones((4, 1), dtype), dtype="bfloat16")["N013"] == "x[:, 0]"


def test_bfloat16_data_are_checked_too() -> None:
    assert named(planted(1, 1, np.nan).astype(ml_dtypes.bfloat16)) == {
        "N011": "x[1, 1]"
    }


@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_stream_of_batches_finds_what_the_whole_shows(size: int) -> None:
    x = planted(150, 4, 5e4)
    x[20, 1] = np.nan
    y = np.arange(200) % 11
    whole = check_arrays({"x": x, "labels": y}, Settings(classes=10))
    stream = Stream(Settings(classes=10))
    for start in range(0, 200, size):
        stream.add("x", x[start : start + size])
        stream.add("labels", y[start : start + size])
    assert stream.problems() == whole


def test_batches_of_other_lengths_are_arrays_of_their_own() -> None:
    stream = Stream()
    stream.add("x", normal(4, 5))
    stream.add("x", normal(4, 6))
    assert sorted(stream.subjects) == ["x", "x (float32 6)"]
