# SPDX-License-Identifier: Apache-2.0
"""Tables of Parquet, where pyarrow is installed, and what is said where it is not."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from numcheck.datacheck.files import pieces
from numcheck.datacheck.stream import Stream
from numcheck.errors import DumpError, MissingExtraError

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path) -> Any:
    pyarrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    age = np.linspace(-1, 1, 100_000)
    age[77_000] = -999
    columns = {
        "age": age,
        "height": age.astype(np.float32) / 1000,
        "city": ["Rome"] * len(age),
        "kind": np.arange(len(age)) % 4,
    }
    parquet.write_table(pyarrow.table(columns), path)


def test_columns_are_checked_by_name_and_labels_by_themselves(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write(path)
    stream = Stream()
    skipped = set()
    for piece in pieces(path, ("kind",)):
        stream.add(piece.name, piece.array, piece.columns)
        skipped.update(piece.skipped)
    found = [(p.id, p.row, p.column) for p in stream.problems()]
    assert ("N015", 77_000, "age") in found
    assert skipped == {"city"}
    assert set(stream.subjects) == {"t (float64)", "t (float32)", "kind"}


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DumpError, match="damaged"):
        list(pieces(path))


def test_without_pyarrow_the_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"numcheck\[parquet\]"):
        list(pieces(tmp_path / "t.parquet"))
