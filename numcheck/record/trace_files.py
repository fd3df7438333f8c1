# SPDX-License-Identifier: Apache-2.0
"""One rank's trace on disk: appended while the run goes on, readable at any moment.

``sites.jsonl``        one site a line, as sites appear
``summaries-NNNNNN.bin``  fixed-size records (`numcheck.record.rows`), flushed once a
                       step; a new segment every `SEGMENT_STEPS` recorded steps
``exponents.jsonl``    exponent histograms, where they were measured
``events.jsonl``       scalars and notes
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from numcheck.errors import RunFolderError
from numcheck.record import rows as binary
from numcheck.record.appending import append, write_whole
from numcheck.record.damage import DAMAGE
from numcheck.record.notice import notice
from numcheck.record.site import Site
from numcheck.record.site_json import (
    event_from_json,
    event_to_json,
    json_line,
    placed,
    site_from_json,
    site_to_json,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence
    from pathlib import Path

    from numcheck.measure.summary import Summary
    from numcheck.record.trace import Event, Trace

__all__ = [
    "SEGMENT_STEPS",
    "RankFiles",
    "TraceWriter",
    "read_rank",
    "read_sites",
    "segments_of",
]

_T = TypeVar("_T")

SEGMENT_STEPS = 1000
KEPT_WHOLE = 10
"""Newest segments that keep every step; older ones keep every tenth."""
THINNED_TO = 10
_UNREADABLE = Site(0, "unreadable", "forward")


class TraceWriter:
    """Appends one rank's sites, summaries and events to a folder."""

    def __init__(self, folder: Path) -> None:
        """Start writing into a new folder.

        Raises:
            RunFolderError: the folder holds a trace already.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "sites.jsonl").exists():
            msg = f"{folder} holds a trace already; nothing is overwritten"
            raise RunFolderError(msg)
        self._folder = folder
        self._sites_written = 0
        self._steps_in_segment = 0
        self._segment = 0
        (folder / "sites.jsonl").touch()

    def sites(self, sites: Sequence[Site]) -> None:
        """Append the sites that were not written yet."""
        new = sites[self._sites_written :]
        self._append("sites.jsonl", (json_line(site_to_json(s)) for s in new))
        self._sites_written = max(self._sites_written, len(sites))

    def step(self, step: int, summaries: Mapping[int, Summary]) -> None:
        """Append what the sites held at one step, and flush."""
        if self._steps_in_segment == SEGMENT_STEPS:
            self._next_segment()
        self._steps_in_segment += 1
        packed = binary.pack(step, summaries).tobytes()
        self._append(_segment_name(self._segment), [packed])
        counted = {i: s.exponents for i, s in summaries.items() if s.exponents}
        if counted:
            lines = (
                json_line({"step": step, "site": i, "counts": list(c.items())})
                for i, c in counted.items()
            )
            self._append("exponents.jsonl", lines)

    def events(self, events: Sequence[Event]) -> None:
        """Append scalars and notes."""
        self._append("events.jsonl", (json_line(event_to_json(e)) for e in events))

    def trace(self, trace: Trace, rank: int = 0) -> None:
        """Append a whole trace of one rank."""
        self.sites(trace.sites)
        for (step, owner), summaries in trace.summaries.items():
            if owner == rank:
                self.step(step, summaries)
        self.events(trace.events)

    def _append(self, name: str, chunks: Iterator[bytes] | Sequence[bytes]) -> None:
        append(self._folder / name, b"".join(chunks))

    def _next_segment(self) -> None:
        self._segment += 1
        self._steps_in_segment = 0
        old = self._segment - KEPT_WHOLE - 1
        if old >= 0:
            _thin_out(self._folder / _segment_name(old))


def _segment_name(number: int) -> str:
    return f"summaries-{number:06d}.bin"


def _thin_out(path: Path) -> None:
    """Keep every tenth step of a segment; a crash leaves the old or the new file."""
    rows, _ = binary.valid_rows(path.read_bytes())
    kept = rows[rows["step"] % THINNED_TO == 0]
    write_whole(path, kept.tobytes())


class RankFiles:
    """What was read from one rank's folder, with notes on what could not be."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self.sites: list[Site] = []
        self.summaries: dict[int, dict[int, Summary]] = {}
        self.events: list[Event] = []
        self.notes: list[str] = []


def segments_of(folder: Path) -> list[Path]:
    """Return the files that hold a rank's summaries, oldest first."""
    return sorted(folder.glob("summaries-*.bin"))


def read_sites(folder: Path, notes: list[str]) -> list[Site]:
    """Return a rank's sites; one that cannot be read keeps its place."""
    found: list[Site] = []
    for site in _lines(folder / "sites.jsonl", site_from_json, notes, _UNREADABLE):
        found.append(placed(site, len(found)))
    return found


def read_rank(folder: Path, steps: Container[int] | None = None) -> RankFiles:
    """Read one rank's folder. Damaged records are dropped with a note.

    Args:
        folder: of one rank.
        steps: read the summaries of these alone; None to read all.

    Raises:
        RunFolderError: the folder holds no trace.
    """
    if not (folder / "sites.jsonl").is_file():
        msg = f"{folder} holds no trace: sites.jsonl is missing"
        raise RunFolderError(msg)
    found = RankFiles()
    found.sites = read_sites(folder, found.notes)
    found.events = list(_lines(folder / "events.jsonl", event_from_json, found.notes))
    histograms = {
        (step, site): counts
        for step, site, counts in _lines(
            folder / "exponents.jsonl", _histogram, found.notes
        )
        if steps is None or step in steps
    }
    for path in segments_of(folder):
        _read_segment(path, found, histograms, steps)
    return found


def _read_segment(
    path: Path,
    found: RankFiles,
    histograms: Mapping[tuple[int, int], dict[int, int]],
    steps: Container[int] | None,
) -> None:
    rows, left = binary.valid_rows(path.read_bytes())
    if left:
        found.notes.append(notice("unread.torn", file=path.name, n=left))
    if steps is not None:
        wanted = [step for step in np.unique(rows["step"]).tolist() if step in steps]
        rows = rows[np.isin(rows["step"], wanted)]
    known = (rows["site"] >= 0) & (rows["site"] < len(found.sites))
    if not known.all():
        strangers = int((~known).sum())
        found.notes.append(notice("unread.strangers", file=path.name, n=strangers))
    for step, site, summary in binary.unpacked(rows[known]):
        held = binary.with_exponents(summary, histograms.get((step, site)))
        found.summaries.setdefault(step, {})[site] = held


def _histogram(row: dict[str, Any]) -> tuple[int, int, dict[int, int]]:
    counts = {int(e): int(c) for e, c in row["counts"]}
    return int(row["step"]), int(row["site"]), counts


def _lines(
    path: Path,
    read: Callable[[dict[str, Any]], _T],
    notes: list[str],
    instead: _T | None = None,
) -> Iterator[_T]:
    """Yield what each line holds; one bad line never hides the others.

    Args:
        path: of the file; without one there is nothing to yield.
        read: what turns a line's values into what it holds.
        notes: gets a note for each line that cannot be read.
        instead: what to yield for such a line, unless it is torn at the end.
    """
    if not path.is_file():
        return
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            yield read(json.loads(line))
        except DAMAGE:
            notes.append(notice("unread.line", file=path.name, n=number))
            if instead is not None and number < len(lines):
                yield instead
