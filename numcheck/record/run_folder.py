# SPDX-License-Identifier: Apache-2.0
"""The folder a run leaves behind: attempts, ranks, incidents, tensors.

    RUN/attempt-001/meta.json
                    rank00000/            the trace (`numcheck.record.trace_files`)
                    rank00000/incidents/000012/   full trace of failing step 12
                    rank00000/incidents.jsonl     what was known of each incident
                    rank00000/witness/*.safetensors

An existing folder gets a new attempt; nothing is overwritten. Only JSON, our own
binary records and safetensors are ever read: no pickle.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numcheck.errors import ArgumentTypeError, RunFolderError
from numcheck.record.appending import append, write_whole
from numcheck.record.damage import DAMAGE, UNREADABLE
from numcheck.record.notice import notice
from numcheck.record.site_json import json_line
from numcheck.record.thinning import (
    chosen_steps,
    danger_by_step,
    records_in,
    together,
)
from numcheck.record.trace import Trace
from numcheck.record.trace_files import (
    TraceWriter,
    read_rank,
    read_sites,
    segments_of,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Container, Mapping, Sequence

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.thinning import Danger

__all__ = ["SCHEMA", "IncidentFiles", "Run", "RunWriter", "open_run"]

SCHEMA = 1
_ATTEMPT = re.compile(r"attempt-(\d{3,})$")
_RANK = re.compile(r"rank(\d{5,})$")
_INCIDENT = re.compile(r"\d{1,20}(-\d{1,9})?")
_PACKAGES = ("numcheck", "numpy", "ml_dtypes", "torch", "torch_npu", "jax", "jaxlib",
             "flax", "optax")  # fmt: skip


class RunWriter:
    """Writes one rank of one attempt of a run."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        rank: int = 0,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the next attempt, or join the one that lacks this rank.

        Raises:
            RunFolderError: `folder` is a file, or cannot be written.
            ArgumentTypeError: it is no path.
        """
        home = _folder_named(folder)
        try:
            self.path = _claim_attempt(home, rank)
            _write_meta(self.path / "meta.json", dict(meta or {}))
            self._rank_path = self.path / f"rank{rank:05d}"
            self.trace = TraceWriter(self._rank_path)
        except (OSError, ValueError) as error:
            msg = f"run={str(folder)!r} cannot be written: {error}"
            raise RunFolderError(msg) from error
        self._incident: dict[str, Any] = {}

    def incident(self, step: int, trace: Trace, known: Mapping[str, Any]) -> None:
        """Keep the full trace of a failing step and what was known of it.

        Args:
            step: the step; a second incident of a step gets a number of its own.
            trace: every operator of the step.
            known: strict JSON values.

        Raises:
            OSError: it could not be written.
        """
        self._incident = {}
        home = self._rank_path / "incidents"
        name = f"{step:06d}"
        taken = sum(1 for p in home.glob(f"{name}*")) if home.is_dir() else 0
        folder = home / (f"{name}-{taken}" if taken else name)
        rank = next((r for s, r in trace.summaries if s == step), 0)
        TraceWriter(folder).trace(trace, rank)
        self._incident = {"folder": folder.name, "step": step, "rank": rank}
        self.complete(known)

    def complete(self, known: Mapping[str, Any]) -> None:
        """Say anew what is known of the last incident; the later word counts.

        Of an incident whose trace could not be written, nothing is kept.
        """
        if not self._incident:
            return
        line = json_line({**self._incident, **known})
        append(self._rank_path / "incidents.jsonl", line)

    def witness(self, name: str, tensors: Mapping[str, Any]) -> Path:
        """Keep tensors (NumPy arrays) as ``witness/NAME.safetensors``.

        Dtypes that safetensors cannot read back are stored as raw bytes, with their
        dtype and shape in the file's metadata.
        """
        from numcheck.record.witness import save_tensors

        return save_tensors(self._rank_path / "witness", name, tensors)


@dataclasses.dataclass(frozen=True, slots=True)
class IncidentFiles:
    """A failing step as it was kept: its full trace, and what was known."""

    step: int
    rank: int
    trace: Trace
    known: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A run folder, read.

    Attributes:
        path: the attempt that was read.
        trace: all ranks together.
        incidents: failing steps, by rank and step.
        notes: what could not be read, as recorded remarks (`numcheck.record.notice`).
        recorded: how many steps were recorded, where not all were read.
    """

    path: Path
    trace: Trace
    incidents: tuple[IncidentFiles, ...]
    notes: tuple[str, ...]
    recorded: int | None = None


def open_run(folder: str | os.PathLike[str], most: int | None = None) -> Run:
    """Read a run folder, or one of its attempts; the newest attempt by default.

    The folder may still be written to. Torn and damaged records are dropped, each
    with a note.

    Args:
        folder: of a run or of an attempt.
        most: about how many summaries to read of a long run: then only some steps
            are (`numcheck.record.thinning`). All by default.

    Raises:
        RunFolderError: the folder is missing, or numcheck did not write it.
    """
    attempt = _newest_attempt(Path(folder))
    meta = _read_meta(attempt / "meta.json")
    notes: list[str] = []
    sites: tuple[Site, ...] = ()
    summaries: dict[tuple[int, int], Mapping[int, Summary]] = {}
    events = []
    incidents: list[IncidentFiles] = []
    unread = 0
    folders = _rank_folders(attempt)
    steps, recorded = _thinned([path for _, path in folders], most)
    for rank, path in folders:
        try:
            files = read_rank(path, steps)
        except RunFolderError:
            notes.append(_of_rank(rank, notice("unread.nothing")))
            unread += 1
            continue
        notes += [_of_rank(rank, note) for note in files.notes]
        # Ranks run the same program; the longest list of sites holds the others'.
        sites = max(sites, tuple(files.sites), key=len)
        events += [dataclasses.replace(e, rank=rank) for e in files.events]
        summaries |= {(step, rank): s for step, s in files.summaries.items()}
        incidents += _read_incidents(path, rank, notes)
    if unread == len(folders):
        msg = f"{attempt} holds no trace: no rank's sites.jsonl is there"
        raise RunFolderError(msg)
    events.sort(key=lambda e: (e.step, e.rank))
    trace = Trace(sites, summaries, tuple(events), meta)
    return Run(attempt, trace, tuple(incidents), tuple(notes), recorded)


def _of_rank(rank: int, problem: str) -> str:
    return notice("unread.rank", rank=rank, problem=problem)


def _thinned(
    folders: Sequence[Path], most: int | None
) -> tuple[Container[int] | None, int | None]:
    """Return the steps to read and how many there are; None and None to read all."""
    if most is None:
        return None, None
    segments = {folder: segments_of(folder) for folder in folders}
    records = sum(map(records_in, segments.values()))
    if records <= most:
        return None, None
    danger: dict[int, Danger] = {}
    for folder, paths in segments.items():
        for step, found in danger_by_step(paths, read_sites(folder, [])).items():
            danger[step] = together(found, danger.get(step))
    return chosen_steps(danger, records, most), len(danger)


def _folder_named(given: str | os.PathLike[str]) -> Path:
    try:
        home = Path(given).absolute()  # a training may change to another folder
        is_file = home.exists() and not home.is_dir()
    except TypeError as error:
        msg = f"run must be the path of a folder, got {given!r}"
        raise ArgumentTypeError(msg) from error
    except (OSError, ValueError) as error:
        msg = f"run={str(given)!r} cannot be a folder: {error}"
        raise RunFolderError(msg) from error
    if is_file:
        msg = f"run={str(given)!r} is a file; expected a folder, or a new name"
        raise RunFolderError(msg)
    if not str(given).strip():
        msg = f"run={str(given)!r} names no folder; the current one is '.'"
        raise RunFolderError(msg)
    return home


def _claim_attempt(home: Path, rank: int) -> Path:
    """Return the attempt this rank writes to: the newest that lacks it, or a new one.

    Creating the rank's folder is what claims it, so two processes cannot both win.
    """
    existing = [number for number, _ in _attempts(home)]
    newest = max(existing, default=0)
    candidates = [newest, newest + 1] if newest else [newest + 1]
    for number in (*candidates, *range(newest + 2, newest + 1000)):
        attempt = home / f"attempt-{number:03d}"
        try:
            (attempt / f"rank{rank:05d}").mkdir(parents=True)
        except FileExistsError:
            continue
        return attempt
    msg = f"{home} holds too many attempts"
    raise RunFolderError(msg)


def _attempts(home: Path) -> list[tuple[int, Path]]:
    if not home.is_dir():
        return []
    matches = ((_ATTEMPT.search(p.name), p) for p in home.iterdir() if p.is_dir())
    return sorted((int(m[1]), p) for m, p in matches if m)


def _newest_attempt(folder: Path) -> Path:
    if not folder.exists():
        msg = f"run folder {str(folder)!r} does not exist"
        raise RunFolderError(msg)
    if (folder / "meta.json").is_file():
        return folder
    attempts = _attempts(folder)
    if not attempts:
        msg = (
            f"{str(folder)!r} is not a run folder: it holds neither meta.json nor "
            "attempt-NNN folders; `run=` of numcheck's `instrument` writes one, and "
            "dumps of msprobe and CANN are read by `numcheck import`"
        )
        raise RunFolderError(msg)
    return attempts[-1][1]


def _rank_folders(attempt: Path) -> list[tuple[int, Path]]:
    matches = ((_RANK.match(p.name), p) for p in attempt.iterdir() if p.is_dir())
    found = sorted((int(m[1]), p) for m, p in matches if m)
    if not found:
        msg = f"{attempt} holds no rank folders: nothing was recorded there"
        raise RunFolderError(msg)
    return found


def _write_meta(path: Path, extra: dict[str, Any]) -> None:
    if path.exists():
        return
    values = {
        "schema": SCHEMA,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {p: v for p in _PACKAGES if (v := _version(p))},
        **extra,
    }
    write_whole(path, json_line(values))


def _version(package: str) -> str | None:
    """Return the version of a package this process uses; others do not matter."""
    if package not in sys.modules:
        return None
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = json.loads(path.read_bytes())
    except UNREADABLE as error:
        msg = f"{path} cannot be read as numcheck's meta.json: {error}"
        raise RunFolderError(msg) from error
    schema = meta.get("schema") if isinstance(meta, dict) else None
    if not isinstance(schema, int):
        msg = f"{path} was not written by numcheck: it names no schema version"
        raise RunFolderError(msg)
    if schema > SCHEMA:
        msg = (
            f"{path} has schema {schema}, this numcheck reads up to {SCHEMA}; "
            "upgrade numcheck"
        )
        raise RunFolderError(msg)
    return dict(meta)


def _incident_name(folder: object) -> str:
    """Return the folder's name if a writer gives such: a hostile one leads elsewhere.

    Raises:
        ValueError: no writer does.
    """
    if not _INCIDENT.fullmatch(str(folder)):
        msg = f"no incident's folder is called {folder!r}"
        raise ValueError(msg)
    return str(folder)


def _read_incidents(path: Path, rank: int, notes: list[str]) -> list[IncidentFiles]:
    listed = path / "incidents.jsonl"
    lines = listed.read_bytes().split(b"\n") if listed.is_file() else ()
    found: dict[str, IncidentFiles] = {}
    lost = 0
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            known = json.loads(line)
            name = _incident_name(known["folder"])
            files, step = read_rank(path / "incidents" / name), int(known["step"])
            if not files.sites:  # nothing measured is one thing, torn another
                files.summaries[step]
        except DAMAGE:
            lost += 1
            told = notice("unread.incident_lost", n=number)
            notes.append(_of_rank(rank, told))
            continue
        by_rank = {(s, rank): held for s, held in files.summaries.items()}
        by_rank.setdefault((step, rank), {})
        trace = Trace(tuple(files.sites), by_rank, tuple(files.events))
        found[name] = IncidentFiles(step, rank, trace, known)
    untold = sum(1 for p in (path / "incidents").glob("*/")) - len(found) - lost
    if untold > 0:
        notes.append(_of_rank(rank, notice("unread.incidents_untold", n=untold)))
    return list(found.values())
