# SPDX-License-Identifier: Apache-2.0
"""Reads the numbers of a table of comma-separated values, some rows at a time."""

from __future__ import annotations

import csv
import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from numcheck.datacheck.piece import Piece, Unread
from numcheck.errors import DumpError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["csv_pieces"]

_CELLS: Final = 1 << 17
_MISSING: Final = {"", "na", "n/a", "null", "none", "nan", "?", "-"}


class _Reader(Protocol):
    """What `csv.reader` returns."""

    @property
    def line_num(self) -> int: ...
    def __iter__(self) -> Iterator[list[str]]: ...
    def __next__(self) -> list[str]: ...


class _Torn(NamedTuple):
    """A row that has another number of cells than the header."""

    number: int
    cells: int


def csv_pieces(path: Path, labels: tuple[str, ...]) -> Iterator[Piece]:
    """Yield the columns of numbers as one array, and each column of labels as its own.

    An empty cell is NaN, and so is a cell of text in a column of numbers; which, is
    told. A column whose first cells are mostly text is left out.

    Raises:
        DumpError: the file cannot be read, or a row has another number of cells
            than the header; the rows above it were yielded.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
            yield from _table(path, csv.reader(file, delimiter=delimiter), labels)
    except OSError as error:
        raise DumpError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DumpError(f"{path}: not a table of text: {error}") from error


def _table(path: Path, reader: _Reader, labels: tuple[str, ...]) -> Iterator[Piece]:
    first = next(reader, None)
    if first is None:
        return
    rows: Iterator[list[str]] = reader
    if all(_number(cell) is not None for cell in first):
        header = tuple(map(str, range(len(first))))
        rows = itertools.chain([first], reader)
    else:
        header = tuple(first)
    numeric: list[int] | None = None
    start = 0
    for block, line in _blocks(rows, reader, len(header)):
        if block:
            cells = list(zip(*block, strict=True))
            if numeric is None:
                numeric = [i for i, c in enumerate(cells) if _is_numeric(c)]
            yield from _pieces(path, header, cells, numeric, labels, start)
            start += len(block)
        if line:
            have = "1 cell" if line.cells == 1 else f"{line.cells} cells"
            msg = f"{path}: line {line.number} has {have}, the header "
            raise DumpError(f"{msg}{len(header)}; nothing from there on was checked")


def _blocks(
    rows: Iterator[list[str]], reader: _Reader, cells: int
) -> Iterator[tuple[list[list[str]], _Torn | None]]:
    """Yield rows in blocks, up to the first row of another length and with its line."""
    most = max(_CELLS // max(cells, 1), 1)
    block: list[list[str]] = []
    for row in rows:
        if row and len(row) != cells:
            yield block, _Torn(reader.line_num, len(row))
            return
        if row:
            block.append(row)
        if len(block) == most:
            yield block, None
            block = []
    yield block, None


def _pieces(
    path: Path,
    header: Sequence[str],
    cells: Sequence[Sequence[str]],
    numeric: Sequence[int],
    labels: tuple[str, ...],
    start: int,
) -> Iterator[Piece]:
    skipped = tuple(n for i, n in enumerate(header) if i not in numeric)
    features = [i for i in numeric if header[i] not in labels]
    size = sum(len(cell) + 1 for column in cells for cell in column)
    if features:
        table = np.stack([_numbers(cells[i]) for i in features], axis=1)
        names = tuple(header[i] for i in features)
        found = [_unread(path.stem, header[i], cells[i], start) for i in features]
        unread = tuple(u for u in found if u is not None)
        yield Piece(path.stem, table, size, names, skipped, unread)
    for i in numeric:
        name = header[i]
        if name in labels:
            own = _unread(name, name, cells[i], start)
            unread = () if own is None else (own,)
            yield Piece(name, _numbers(cells[i]), 0, unread=unread)


def _unread(array: str, column: str, cells: Sequence[str], start: int) -> Unread | None:
    """Return the cells of a column that neither are numbers nor stand for none."""
    bad = [
        (row, cell)
        for row, cell in enumerate(cells, start)
        if _number(cell) is None and cell.strip().lower() not in _MISSING
    ]
    if not bad:
        return None
    row, text = bad[0]
    return Unread(array, column, row, text, len(bad))


def _is_numeric(cells: Sequence[str]) -> bool:
    told = [c for c in cells if c.strip().lower() not in _MISSING]
    return sum(_number(c) is not None for c in told) * 2 >= len(told)


def _numbers(cells: Sequence[str]) -> NDArray[Any]:
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        found = (_number(cell) for cell in cells)
        return np.array([np.nan if x is None else x for x in found])


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
