# SPDX-License-Identifier: Apache-2.0
"""`numcheck data`: files, exit codes, output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

from numcheck.cli import main
from numcheck.datacheck.commands import data
from numcheck.datacheck.files import pieces
from numcheck.datacheck.stream import Stream
from numcheck.errors import NumcheckError

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(data, [*map(str, arguments), "--lang", "en"])


@pytest.fixture
def x() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)


def write(path: Path, x: np.ndarray[Any, Any]) -> Path:
    if path.suffix == ".npy":
        np.save(path, x)
    elif path.suffix == ".npz":
        np.savez(path, x=x)
    elif path.suffix == ".safetensors":
        save_file({"x": x}, path)
    else:
        mark = "\t" if path.suffix == ".tsv" else ","
        rows = [mark.join("abcd"), *(mark.join(map(str, r)) for r in x.tolist())]
        path.write_text("\n".join(rows) + "\n")
    return path


ENDINGS = ["npy", "npz", "safetensors", "csv", "tsv"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_clean_files_exit_with_zero(
    tmp_path: Path, x: np.ndarray[Any, Any], ending: str
) -> None:
    result = run(write(tmp_path / f"x.{ending}", x))
    assert (result.exit_code, "1200 elements" in result.output) == (0, True)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_finding_exits_with_one_and_names_the_place(
    tmp_path: Path, x: np.ndarray[Any, Any], ending: str
) -> None:
    x[17, 3] = 1e30
    result = run(write(tmp_path / f"x.{ending}", x), "--json")
    assert result.exit_code == 1
    (file,) = json.loads(result.output)["files"]
    (problem,) = file["problems"]
    column = "d" if ending in ("csv", "tsv") else "3"
    assert (problem["id"], problem["row"], problem["column"]) == ("N015", 17, column)


def test_a_folder_is_searched(tmp_path: Path, x: np.ndarray[Any, Any]) -> None:
    (tmp_path / "deep").mkdir()
    write(tmp_path / "a.npy", x)
    write(tmp_path / "deep" / "b.npy", x * np.float32(np.nan))
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "error[N011]" in result.output
    assert "2 files" in result.output


def test_notes_alone_are_clean(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (9, 8, 8), np.uint8)
    result = run(write(tmp_path / "i.npy", images))
    assert (result.exit_code, "note[N017]" in result.output) == (0, True)


def test_columns_of_a_table(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    lines = [f"{i / 100},Rome,{i % 3}" for i in range(100)]
    text = "\ufeffage,city,kind\n" + "\n".join(lines) + "\n,Paris,3\n"
    table.write_text(text, "utf-8")
    result = run(table, "--labels", "kind", "--classes", 3)
    assert "t[100, 'age']" in result.output
    assert "kind[100] is 3" in result.output
    assert "left out: city" in result.output


def test_a_table_without_a_header_is_numbered(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("".join(f"{i / 9},{-i / 9}\n" for i in range(30)) + "nan,0\n")
    assert "t[30, '0']" in run(table).output


def test_a_file_of_many_pieces_gives_what_one_piece_gives(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(700_000,)).astype(np.float32)
    x[654_321] = 7e3
    path = write(tmp_path / "x.npy", x)
    assert len(list(pieces(path))) > 1
    stream = Stream()
    stream.add("x", x)
    assert stream.problems()
    assert [p["row"] for p in _problems(path)] == [654_321]
    assert [p["id"] for p in _problems(path)] == [p.id for p in stream.problems()]


def _problems(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(path, "--json").output)["files"][0][
        "problems"
    ]
    return found


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.npy", b"nothing", "damaged"),
        ("x.csv", b"a,b\n1,2\n1,2,3\n", "3 cells, the header 2"),
        ("x.csv", b"a,b\n\xff\xfe\n", "not a table of text"),
    ],
)
def test_what_cannot_be_read_says_why(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    result = run(path)
    assert (result.exit_code, message in result.output) == (2, True)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.doc").write_bytes(b"")
    with pytest.raises(NumcheckError, match="expected a file that ends in"):
        raise run(tmp_path / "x.doc").exception


@pytest.mark.parametrize(
    "arguments", [["--labels", "nothing"], ["--dtype", "float17"], ["--classes", "0"]]
)
def test_options_that_cannot_be_meant_exit_with_two(
    tmp_path: Path, x: np.ndarray[Any, Any], arguments: list[str]
) -> None:
    path = write(tmp_path / "x.npy", x)
    with pytest.raises(SystemExit) as left:
        main(["data", str(path), *arguments])
    assert left.value.code == 2


def test_a_missing_path_exits_with_two(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as left:
        main(["data", str(tmp_path / "none")])
    assert left.value.code == 2


def test_names_cannot_command_the_terminal(tmp_path: Path) -> None:
    save_file({"\x1b[31mx": np.full((5, 2), np.nan)}, tmp_path / "x.safetensors")
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "\x1b" not in result.output


def test_both_languages_say_it(tmp_path: Path, x: np.ndarray[Any, Any]) -> None:
    path = write(tmp_path / "x.npy", x * np.float32(np.inf))
    result = CliRunner().invoke(data, [str(path), "--lang", "zh"])
    assert "数据" in result.output or "元素" in result.output


def test_a_damaged_file_does_not_hide_the_others(
    tmp_path: Path, x: np.ndarray[Any, Any]
) -> None:
    write(tmp_path / "a.npy", x)
    (tmp_path / "b.npy").write_bytes(b"nothing")
    write(tmp_path / "c.npy", x * np.float32(np.nan))
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "b.npy: damaged" in result.output
    assert "error[N011]" in result.output
    assert "c.npy" in result.output


def test_a_file_that_breaks_off_shows_what_was_read(tmp_path: Path) -> None:
    rows = [f"{i},{i / 7}" for i in range(80_000)]
    rows[10] = "nan,1"
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n".join(rows) + "\n1,2,3\n")
    (file,) = json.loads(run(path, "--json").output)["files"]
    assert "3 cells, the header 2" in file["error"]
    assert "N011" in [p["id"] for p in file["problems"]]


def test_text_in_a_column_of_numbers_is_named_with_its_cell(tmp_path: Path) -> None:
    rows = [f"{i / 7},{i / 9}" for i in range(40)]
    rows[4] = "12 kg,0.5"
    rows[6] = "unknown,0.5"
    path = tmp_path / "t.csv"
    path.write_text("weight,height\n" + "\n".join(rows) + "\n")
    result = run(path)
    assert "warning[N028]: t[4, 'weight'] is the text “12 kg”" in result.output
    assert "cells like it in the column: 2" in result.output
    assert "t[4, 'weight']" in [p["fields"]["place"] for p in _problems(path)]
    assert "left out" not in result.output


@pytest.mark.parametrize(
    ("cell", "told"),
    [("2", ["N028"]), ("", ["N011", "N028"]), ("inf", ["N011", "N028"])],
)
def test_text_is_counted_as_missing_only_beside_cells_that_are(
    cell: str, told: list[str], tmp_path: Path
) -> None:
    rows = ["1,0.5", "x,0.6", f"{cell},0.7", "3,0.1", "4,0.2"]
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n".join(rows) + "\n")
    assert [p["id"] for p in _problems(path) if p["id"] in ("N011", "N028")] == told
    assert run(path).exit_code == 1


def test_a_short_column_with_one_bad_cell_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\nx,3\n")
    result = run(path)
    assert "N028" in result.output
    assert "left out" not in result.output


def test_a_column_of_missing_values_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "a,b\n" + "".join(f"{i},{'NA' if i % 9 else 1}\n" for i in range(60))
    )
    assert "N028" not in run(path).output


def test_both_parts_of_complex_numbers_are_checked(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    z = random.normal(size=(300, 2)) + 1j * random.normal(size=(300, 2))
    path = write(tmp_path / "z.npy", z)
    assert run(path).exit_code == 0
    z[7, 1] = complex(0.0, np.nan)
    (problem,) = _problems(write(path, z))
    assert (problem["array"], problem["row"], problem["id"]) == ("z.imag", 7, "N011")


def test_a_torn_row_is_named_by_its_line_and_the_rows_above_are_checked(
    tmp_path: Path,
) -> None:
    rows = [f"{i / 7},{i / 9}" for i in range(70_000)]
    rows[40_000] = "nan,1"
    rows[50_000] = "1"
    rows[60_000] = "nan,1"
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n".join(rows) + "\n")
    result = run(path, "--json")
    (file,) = json.loads(result.output)["files"]
    assert "line 50002 has 1 cell, the header 2" in file["error"]
    assert file["elements"] == 100_000
    (problem,) = [p for p in file["problems"] if p["id"] == "N011"]
    assert (problem["row"], problem["fields"]["nan"], result.exit_code) == (
        40_000,
        1,
        2,
    )


def test_a_line_number_counts_blank_lines_and_line_breaks_in_cells(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,2\n\n"x\ny",3\n4\n')
    assert "line 6 has 1 cell" in run(path).output


@pytest.mark.parametrize("kind", ["blank", "header", "text", "shapeless"])
def test_a_file_without_a_number_is_not_called_clean(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("x.csv" if kind in ("blank", "header") else "x.npy")
    if path.suffix == ".csv":
        path.write_text("" if kind == "blank" else "a,b\n")
    else:
        np.save(path, np.array(["a"]) if kind == "text" else np.zeros((0, 3)))
    result = run(path)
    assert result.exit_code == 2
    assert f"{path}: no numbers in it, so nothing was checked" in result.output
    assert "nothing found" not in result.output


def test_an_empty_file_beside_others_is_told(
    tmp_path: Path, x: np.ndarray[Any, Any]
) -> None:
    write(tmp_path / "a.npy", x)
    np.save(tmp_path / "b.npy", np.zeros((0, 4)))
    result = run(tmp_path)
    assert (result.exit_code, "nothing found" in result.output) == (0, True)
    assert "b.npy: no numbers in it" in result.output


@pytest.mark.parametrize("ending", ["npy", "npz", "compressed.npz"])
def test_objects_are_refused_by_their_name(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    save: Any = {"npy": np.save, "npz": np.savez}.get(ending, np.savez_compressed)
    objects = np.array([1, None], object)
    save(path, **{"arr" if ending == "npy" else "thing": objects}, allow_pickle=True)
    result = run(path)
    assert result.exit_code == 2
    assert "holds Python objects" in result.output
    assert "damaged" not in result.output
