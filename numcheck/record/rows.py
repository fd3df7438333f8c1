# SPDX-License-Identifier: Apache-2.0
"""Summaries as fixed-size binary records, so that a file of them can be mapped.

A record carries a checksum of itself: a record torn by a crash is recognised at any
byte. Which fields were measured is a bit mask, since no number stands for "unknown".
"""

from __future__ import annotations

import dataclasses
import re
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

from numcheck.measure.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import numpy.typing as npt

__all__ = ["ROW", "mapped_rows", "measured_mask", "pack", "unpacked", "valid_rows"]

_COUNTS = ("nan", "pos_inf", "neg_inf", "zero", "subnormal")
_VALUES = ("low", "high", "amax", "amin", "total", "total_sq")
_FIELDS = (*_COUNTS, *_VALUES)  # in the order of Summary's own
_ALL = (1 << len(_FIELDS)) - 1

ROW = np.dtype(
    [
        ("step", "<i8"),
        ("site", "<i4"),
        ("measured", "<u4"),
        ("n", "<i8"),
        *((name, "<i8") for name in _COUNTS),
        *((name, "<f8") for name in _VALUES),
        ("unused", "<u4"),
        ("checksum", "<u4"),
    ]
)
_BODY = ROW.itemsize - 4
_UNUSED: Final = bytes(4)
_MOST_TRIES: Final = 1_000_000  # a few seconds; what lies beyond so much noise is lost
_SAYING: Final = re.compile(rb"[^\0]")
_UNUSED_AT: Final = _BODY - 4


def pack(step: int, summaries: Mapping[int, Summary]) -> npt.NDArray[np.void]:
    """Return one record for each site of a step, in the mapping's order."""
    rows = np.array([_row(step, i, s) for i, s in summaries.items()], ROW)
    rows["checksum"] = _checksums(rows)
    return rows


def _row(step: int, site: int, summary: Summary) -> tuple[float, ...]:
    values = [getattr(summary, name) for name in _FIELDS]
    measured = sum(1 << bit for bit, v in enumerate(values) if v is not None)
    return (step, site, measured, summary.n, *(v or 0 for v in values), 0, 0)


def _checksums(rows: npt.NDArray[np.void]) -> list[int]:
    data = memoryview(rows.tobytes())
    size = ROW.itemsize
    return [zlib.crc32(data[i : i + _BODY]) for i in range(0, len(data), size)]


def measured_mask(name: str) -> int:
    """Return the bit that says whether a field was measured."""
    return 1 << _FIELDS.index(name)


def unpacked(rows: npt.NDArray[np.void]) -> Iterator[tuple[int, int, Summary]]:
    """Yield step, site and summary of each record."""
    for step, site, measured, n, *values, _, _ in rows.tolist():
        if measured == _ALL:
            yield step, site, Summary(n, *values)
            continue
        known = (v if measured >> bit & 1 else None for bit, v in enumerate(values))
        yield step, site, Summary(n, *known)


def valid_rows(data: bytes | memoryview) -> tuple[npt.NDArray[np.void], int]:
    """Return the records that are whole, and how many bytes are none of theirs.

    Neither a record whose checksum does not match, as a failing disk leaves it, nor one
    that was written in part, so that those after it lie elsewhere, hides any other.
    """
    rows = np.frombuffer(data, ROW, count=len(data) // ROW.itemsize)
    is_whole = rows["checksum"] == np.array(_checksums(rows), np.uint32)
    if not is_whole.all():
        first = int(is_whole.argmin())
        rest = bytes(data[first * ROW.itemsize :])
        found = [rest[i : i + ROW.itemsize] for i in _starts(rest)]
        rows = np.concatenate([rows[:first], np.frombuffer(b"".join(found), ROW)])
    return rows, len(data) - rows.nbytes


def mapped_rows(path: Path) -> npt.NDArray[np.void]:
    """Return a segment's records as they lie on disk, where they lie in line.

    Only what tells of a shift is read: the last record is none then.
    """
    whole = path.stat().st_size // ROW.itemsize
    if not whole:
        return np.empty(0, ROW)
    rows = np.memmap(path, ROW, "r", shape=(whole,))
    if _is_record(rows[-1:].tobytes(), 0):
        return rows
    return valid_rows(path.read_bytes())[0]


def _starts(data: bytes) -> Iterator[int]:
    """Yield where records start, wherever that is."""
    at, last, tried = 0, len(data) - ROW.itemsize, 0
    while at <= last and tried < _MOST_TRIES:
        if _is_record(data, at):
            yield at
            at += ROW.itemsize
            continue
        tried += 1
        # The next place with the zeros that every record holds, and not them alone.
        said = _SAYING.search(data, at)
        at += 1 if said is None else max(1, said.start() - _BODY - at)
        zeros = data.find(_UNUSED, at + _UNUSED_AT)
        if said is None or zeros < 0:
            return
        at = zeros - _UNUSED_AT


def _is_record(data: bytes, at: int) -> bool:
    said = data[at + _BODY : at + ROW.itemsize]
    return zlib.crc32(data[at : at + _BODY]) == int.from_bytes(said, "little")


def with_exponents(summary: Summary, counts: Mapping[int, int] | None) -> Summary:
    """Return the summary with its exponent histogram, which records do not hold."""
    return dataclasses.replace(summary, exponents=counts) if counts else summary
