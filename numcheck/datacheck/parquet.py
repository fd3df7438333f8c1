# SPDX-License-Identifier: Apache-2.0
"""Reads the numbers of a Parquet file, where pyarrow is installed."""

from __future__ import annotations

import importlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.datacheck.layout import is_numeric
from numcheck.datacheck.piece import Piece
from numcheck.errors import DumpError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["parquet_pieces"]

_ROWS: Final = 1 << 15


def parquet_pieces(path: Path, labels: tuple[str, ...]) -> Iterator[Piece]:
    """Yield the columns of each dtype as one array, columns of labels by themselves.

    Raises:
        MissingExtraError: pyarrow is not installed.
        DumpError: the file is damaged.
    """
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        how = "Parquet is read by pyarrow: pip install 'numcheck[parquet]'"
        msg = f"{path}: {how}"
        raise MissingExtraError(msg) from error
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS):
                yield from _pieces(path.stem, batch, labels)
    except (OSError, arrow.ArrowException) as error:
        raise DumpError(f"{path}: damaged or no Parquet file: {error}") from error


def _pieces(
    stem: str,
    batch: Any,  # noqa: ANN401 - pyarrow's RecordBatch
    labels: tuple[str, ...],
) -> Iterator[Piece]:
    groups: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    skipped: list[str] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = column.to_numpy(zero_copy_only=False)
        if not is_numeric(values.dtype):
            skipped.append(name)
        elif name in labels:
            yield Piece(name, values, values.nbytes)
        else:
            groups[values.dtype.name].append((name, values))
    for dtype, held in groups.items():
        table = np.stack([values for _, values in held], axis=1)
        name = stem if len(groups) == 1 else f"{stem} ({dtype})"
        names = tuple(column for column, _ in held)
        yield Piece(name, table, table.nbytes, names, tuple(skipped))
