# SPDX-License-Identifier: Apache-2.0
"""The calculator's commands answer in both languages, and in JSON that parses."""

from __future__ import annotations

import json
import math
import zipfile
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner
from rich.cells import cell_len
from safetensors.numpy import save_file

from numcheck.cli import cli, main
from numcheck.formats import block_names, get, lookup, names
from numcheck.measure import fit

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

LANGUAGES = ["en", "zh"]


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == code, result.output
    return result


def is_chinese(text: str) -> bool:
    return any("\u4e00" <= c <= "\u9fff" for c in text)


@pytest.fixture
def gradients(tmp_path: Path) -> Path:
    """Returns a file of numbers too small for float16."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 40)) * np.exp2(rng.integers(-20, 2, (30, 40))) * 1e-4
    path = tmp_path / "gradients.npy"
    np.save(path, x.astype(np.float32))
    return path


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_list_names_every_format(lang: str) -> None:
    output = run("formats", "--lang", lang).output
    words = output.split()
    assert {*names(), *block_names()} <= set(words)
    assert max(map(cell_len, output.splitlines())) <= 80
    assert is_chinese(output) == (lang == "zh")


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", [*names(), *block_names(), "e5m10", "q8.8", "uq4.4"])
def test_every_format_has_a_page(name: str, lang: str) -> None:
    output = run("formats", name, "--lang", lang).output
    assert max(map(cell_len, output.splitlines())) <= 80
    assert output.startswith(f"{lookup(name).name} — ")
    assert is_chinese(output) == (lang == "zh")
    assert "calculator." not in output


def test_a_page_says_the_limits_and_what_happens_beyond() -> None:
    output = run("formats", "fp8_e4m3").output
    for fact in ("448", "above 464; 464 itself does not", "no Inf", "2^-9", "2^-10"):
        assert fact in output


def test_the_list_as_json_holds_every_attribute() -> None:
    rows = {row["name"]: row for row in json.loads(run("formats", "--json").output)}
    assert rows.keys() == {*names(), *block_names()}
    assert rows["float16"]["max"] == 65504.0
    assert rows["float64"]["overflow_threshold"] == "inf"
    assert rows["mxfp4_e2m1"]["element"]["name"] == "float4_e2m1fn"
    one = json.loads(run("formats", "torch.bfloat16", "--json").output)
    assert one == rows["bfloat16"]


# Each value, what is said of it, and the code it gets in float16.
FATES = [
    ("70000", "overflow", "0x7c00"),
    ("65519.99", "clipped", "0x7bff"),
    ("65504", "exact", "0x7bff"),
    ("0.1", "rounded", "0x2e66"),
    ("3e-6", "subnormal", "0x0032"),
    ("-1e-8", "flushed", "0x8000"),
    ("2^-24", "exact", "0x0001"),
    ("-2**-14", "exact", "0x8400"),
    ("0x1p4", "exact", "0x4c00"),
    ("1/3", "rounded", "0x3555"),
    ("nan", "nan", "0x7e00"),
    ("-inf", "inf", "0xfc00"),
    ("0", "exact", "0x0000"),
]


def test_each_value_meets_its_fate() -> None:
    values = [value for value, _, _ in FATES]
    fates = json.loads(run("range", "fp16", "--json", *values).output)
    found = [
        (value, f["outcome"], f["code"]) for value, f in zip(values, fates, strict=True)
    ]
    assert found == FATES
    overflowed = fates[0]
    assert (overflowed["result"], overflowed["saturated"]) == ("inf", 65504.0)
    assert overflowed["headroom"] == pytest.approx(math.log2(65504 / 70000))


@pytest.mark.parametrize(
    ("fmt", "fates"),
    [
        (
            "e8m0",
            {"1e-40": "lifted", "0": "absent", "-3": "absent", "1e39": "overflow"},
        ),
        ("uint8", {"-0.3": "flushed", "-0.7": "overflow", "255.4": "clipped"}),
        ("int8", {"-128.4": "clipped", "-128": "exact", "-129": "overflow"}),
        ("hif8", {"40959": "clipped", "40960": "overflow"}),
    ],
    ids=["e8m0", "uint8", "int8", "hif8"],
)
def test_a_value_meets_its_fate_where_limits_differ_by_sign(
    fmt: str, fates: dict[str, str]
) -> None:
    found = json.loads(run("range", fmt, "--json", *fates).output)
    assert [fate["outcome"] for fate in found] == list(fates.values())


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", [*names(), "q8.8"])
def test_every_format_has_an_answer_for_every_value(name: str, lang: str) -> None:
    values = [value for value, _, _ in FATES]
    output = run("range", name, *values, "--lang", lang).output
    assert max(map(cell_len, output.splitlines())) <= 80
    assert is_chinese(output) == (lang == "zh")
    assert len(output.splitlines()) > 2 * len(values)


def test_the_page_says_what_a_person_needs() -> None:
    output = run("range", "fp16", "70000").output
    assert "overflows: becomes Inf; a saturating cast gives 65504" in output
    assert "−0.10" in output


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_file_is_measured_and_drawn(gradients: Path, lang: str) -> None:
    output = run("fit", str(gradients), "--lang", lang).output
    assert "bfloat16" in output
    assert "━" in output
    assert is_chinese(output) == (lang == "zh")
    assert "calculator." not in output


def test_shares_in_json_are_those_of_fit(gradients: Path) -> None:
    (row,) = json.loads(run("fit", str(gradients), "--to", "fp16", "--json").output)
    expected = fit(np.load(gradients), ["fp16"])
    assert row["formats"][0]["as_is"]["flushed"]["low"] == (
        expected.formats[0].as_is.flushed.low
    )
    assert row["formats"][0]["scale_log2"] == expected.formats[0].scale_log2
    assert row["shape"] == [30, 40]
    assert row["recommended_scaled"]["format"] == "float16"


@pytest.mark.parametrize("compressed", [False, True])
def test_every_array_of_an_npz_file_gets_a_line(
    tmp_path: Path, compressed: bool
) -> None:
    arrays = {
        "a": np.linspace(-1, 1, 50, dtype=np.float32),
        "b": np.asfortranarray(np.ones((3, 4)) * 1e6),
        "empty": np.zeros((0, 3)),
    }
    path = tmp_path / "x.npz"
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    output = run("fit", str(path)).output
    assert all(name in output for name in arrays)
    rows = json.loads(run("fit", str(path), "--json").output)
    for row in rows:
        assert row["summary"]["n"] == arrays[row["name"]].size
        assert row["summary"]["total"] == pytest.approx(arrays[row["name"]].sum())


def test_arrays_of_other_kinds_are_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "x.npz", text=np.array(["a"]), good=np.ones(3))
    with pytest.raises(SystemExit, match="0"):
        main(["fit", str(tmp_path / "x.npz")])
    told = capsys.readouterr()
    assert "text: left out" in told.err
    assert "good: float64" in told.out


def test_a_hostile_name_does_not_reach_the_terminal(tmp_path: Path) -> None:
    names = ["\x1b[31mred", "ten\u202esor"]
    np.savez(tmp_path / "x.npz", **{name: np.ones(2) for name in names})
    for arguments in ([], ["--tensor", names[0]]):
        output = run("fit", str(tmp_path / "x.npz"), *arguments).output
        assert not {"\x1b", "\u202e"} & {*output}


def test_a_file_without_numbers_is_an_error_that_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.ones(3, ml_dtypes.bfloat16))
    np.savez(tmp_path / "none.npz")
    for name, advice in (("x.npy", "--dtype bfloat16"), ("none.npz", "")):
        with pytest.raises(SystemExit, match="2"):
            main(["fit", str(tmp_path / name)])
        told = capsys.readouterr()
        assert "holds no array of real numbers" in told.err
        assert advice in told.err
        assert not told.out


def test_safetensors_of_every_dtype_are_read(tmp_path: Path) -> None:
    dtypes: list[Any] = [
        np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, bool,
    ]  # fmt: skip
    arrays = {np.dtype(d).name: np.array([[1, 0, 1]]).astype(d) for d in dtypes}
    path = tmp_path / "model.safetensors"
    save_file(arrays, path)
    rows = json.loads(run("fit", str(path), "--json").output)
    assert {row["name"]: row["dtype"] for row in rows} == {n: n for n in arrays}
    assert all(row["summary"]["total"] == 2.0 for row in rows)
    one = run("fit", str(path), "--tensor", "bfloat16").output
    assert one.startswith("bfloat16: bfloat16, shape 1×3, 3 elements")


def test_raw_items_can_be_given_a_dtype(tmp_path: Path) -> None:
    path = tmp_path / "raw.npy"
    np.save(path, np.array([1.0, -3.0]).astype(ml_dtypes.bfloat16).view(np.uint16))
    (row,) = json.loads(run("fit", str(path), "--dtype", "bf16", "--json").output)
    assert row["summary"]["amax"] == 3.0


def damaged(path: Path, kind: str) -> Path:
    """Writes a file that ends early, lies about itself, or is another kind."""
    target = path / f"x.{kind.partition('-')[0]}"
    if kind == "npy-short":
        np.save(target, np.ones(1000))
        target.write_bytes(target.read_bytes()[:500])
    elif kind == "npz-broken":
        target.write_bytes(b"PK\x03\x04 nothing")
    elif kind == "npz-foreign":
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr("readme.txt", "not an array")
    elif kind == "safetensors-short":
        save_file({"a": np.ones(100)}, target)
        target.write_bytes(target.read_bytes()[:-100])
    elif kind == "safetensors-header":
        target.write_bytes(b"\xff" * 64)
    elif kind == "npy-objects":
        np.save(target, np.array([{}]), allow_pickle=True)
    else:
        target = path / "x.txt"
        target.write_text("1 2 3")
    return target


@pytest.mark.parametrize(
    "kind",
    [
        "npy-short", "npy-objects", "npz-broken", "npz-foreign", "safetensors-short",
        "safetensors-header", "txt",
    ],
)  # fmt: skip
def test_a_damaged_file_is_an_error_that_names_it(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damaged(tmp_path, kind)
    with pytest.raises(SystemExit) as stopped:
        main(["fit", str(path)])
    assert stopped.value.code == 2
    assert path.name in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["range", "fp16", "abc"], "'abc' is no number"),
        (["range", "fp16", "1/3/4"], "'1/3/4' is no number"),
        (["range", "fp16", "1e400"], "beyond the largest float64"),
        (["range", "fp16", "2^-2000"], "below the smallest float64"),
        (["range", "flot16", "1"], "did you mean 'float16'"),
        (["range", "fp61", "1"], "did you mean 'fp16'"),
        (["range", "mxfp4", "1"], "block format"),
        (["formats", "nothing-like-it"], "unknown number format"),
        (["fit", "missing.npy"], "No such file"),
        (["fit", "missing"], "missing: no such file"),
    ],
    ids=str,
)
def test_mistakes_are_answered_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_an_unknown_array_is_answered_with_those_that_exist(
    gradients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["fit", str(gradients), "--tensor", "weights"])
    assert "it holds gradients" in capsys.readouterr().err


ODD: dict[str, tuple[Any, str, str]] = {
    "empty": (np.zeros((0, 3)), "no elements", "没有元素"),
    "no_finite": ([np.nan, np.inf], "no element is finite", "没有有限的元素"),
    "all_zero": (np.zeros(4), "all elements are zero", "所有元素均为零"),
    "some_finite": ([np.nan, 1.0], "not finite are left out", "不计非有限的元素"),
    "integers": (np.arange(9), "token ids stay int64", "应保持 int64"),
    "bools": (np.array([True, False]), "which stay bool", "应保持 bool"),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_odd_about_an_array_is_said_before_any_advice(
    kind: str, tmp_path: Path
) -> None:
    array, english, chinese = ODD[kind]
    path = tmp_path / "odd.npy"
    np.save(path, np.asarray(array))
    run = CliRunner()
    for lang, said in (("en", english), ("zh", chinese)):
        page = run.invoke(cli, ["fit", str(path), "--lang", lang]).output
        assert said in page
        decides = kind in ("some_finite", "integers", "bools")
        assert ("float8_e4m3fn" in page) == decides
    data = json.loads(run.invoke(cli, ["fit", str(path), "--json"]).output)
    assert data[0]["remark"] == kind


def test_the_list_of_arrays_recommends_nothing_for_those_that_decide_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "all.npz"
    np.savez(path, **{kind: np.asarray(array) for kind, (array, *_) in ODD.items()})
    page = CliRunner().invoke(cli, ["fit", str(path), "--lang", "en"]).output
    taken = {
        line.split()[0]: line.split()[-1]
        for line in page.splitlines()
        if line.split() and line.split()[0] in ODD
    }
    assert taken == {
        "empty": "–",
        "no_finite": "–",
        "all_zero": "–",
        "some_finite": "float8_e4m3fn",
        "integers": "int64",
        "bools": "bool",
    }


def test_pages_need_no_block_characters(gradients: Path) -> None:
    runner = CliRunner(charset="ascii")
    result = runner.invoke(cli, ["fit", str(gradients), "--to", "fp16"])
    assert get("fp16").name in result.output


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_criterion_and_the_exact_formats_are_named(
    tmp_path: Path, lang: str
) -> None:
    path = tmp_path / "img.npy"
    np.save(path, np.arange(256, dtype=np.float32))
    output = run("fit", str(path), "--lang", lang).output
    assert "0.1 %" in output
    assert "15 dB" in output
    (exact,) = [
        line
        for line in output.splitlines()
        if line.startswith(("exact in", "float16 和"))
    ]
    assert {"float16", "bfloat16"} <= set(exact.replace(":", " ").split())


@pytest.mark.parametrize("shift", [0, -20, 9])
def test_a_format_is_exact_where_a_cast_there_and_back_changes_nothing(
    tmp_path: Path, shift: int
) -> None:
    x = np.ldexp(np.arange(256, dtype=np.float32), shift)
    np.save(tmp_path / "x.npy", x)
    (told,) = json.loads(run("fit", str(tmp_path / "x.npy"), "--json").output)
    types: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
    with np.errstate(over="ignore"):
        same = [n for n, t in types.items() if np.array_equal(x.astype(t), x)]
    assert told["exact"] == same
    assert told["recommended"] is None or told["criterion"]["min_sqnr_db"] == 15


def test_an_array_that_no_format_holds_exactly_is_told_no_exact_one(
    tmp_path: Path,
) -> None:
    np.save(tmp_path / "x.npy", np.float32([1 / 3, 1e-3, 7.7]))
    assert "exact in" not in run("fit", str(tmp_path / "x.npy"), "--lang", "en").output


def test_a_format_that_saturates_anyway_says_its_result_once() -> None:
    output = run("range", "int8", "200", "inf", "--lang", "en").output
    assert "200 overflows and saturates: becomes 127\n" in output
    assert "a saturating cast" not in output
