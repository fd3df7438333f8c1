# SPDX-License-Identifier: Apache-2.0
"""Reads data files of any size piece by piece."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.calculator._files import arrays_in
from numcheck.datacheck.csv_file import csv_pieces
from numcheck.datacheck.layout import cut
from numcheck.datacheck.parquet import parquet_pieces
from numcheck.datacheck.piece import Piece
from numcheck.errors import DumpError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["ENDINGS", "files_in", "pieces"]

_ARRAYS: Final = (".npy", ".npz", ".safetensors")
ENDINGS: Final = (*_ARRAYS, ".csv", ".tsv", ".parquet")


def files_in(path: str | Path) -> list[Path]:
    """Return the data files that a path names: itself, or those below a folder.

    Raises:
        DumpError: there is nothing there, or nothing that can be read.
    """
    path = Path(path)
    if path.is_file():
        if path.suffix.lower() not in ENDINGS:
            raise DumpError(f"{path}: expected a file that ends in {_listed()}")
        return [path]
    if not path.is_dir():
        raise DumpError(f"{path}: no such file or folder")
    found = sorted(p for p in path.rglob("*") if p.suffix.lower() in ENDINGS)
    if not found:
        raise DumpError(f"{path}: no file below it ends in {_listed()}")
    return [p for p in found if p.is_file()]


def pieces(path: Path, labels: tuple[str, ...] = ()) -> Iterator[Piece]:
    """Yield the arrays of a file in pieces of rows; those of one array in order.

    Args:
        path: the file.
        labels: columns of a table that are arrays of their own.

    Raises:
        DumpError: it is missing or damaged.
        MissingExtraError: reading it needs a package that is not installed.
    """
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv"):
        yield from csv_pieces(path, labels)
    elif ending == ".parquet":
        yield from parquet_pieces(path, labels)
    else:
        for name, array in arrays_in(path):
            for part in cut(np.atleast_1d(array)):
                yield from _real(name, part)


def _real(name: str, part: NDArray[Any]) -> Iterator[Piece]:
    """Yield a part as it is; of complex numbers the real and the imaginary ones."""
    if part.dtype.kind == "c":
        yield Piece(f"{name}.real", part.real, part.nbytes)
        yield Piece(f"{name}.imag", part.imag, 0)
    else:
        yield Piece(name, part, part.nbytes)


def _listed() -> str:
    return ", ".join(ENDINGS)
