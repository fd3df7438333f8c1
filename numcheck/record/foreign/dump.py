# SPDX-License-Identifier: Apache-2.0
"""The door to foreign dumps: which tool wrote a folder, and its steps as traces."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from numcheck.errors import DumpError
from numcheck.record.foreign.cann import find_records, read_records
from numcheck.record.foreign.msprobe import find_steps, read_step
from numcheck.record.history import TraceHistory
from numcheck.record.trace import Trace

if TYPE_CHECKING:
    import os

    from numcheck.record.foreign.msprobe import StepFolder

__all__ = ["read_dump", "read_steps"]


def read_steps(path: str | os.PathLike[str]) -> tuple[Trace, ...]:
    """Return what a dump holds: one trace for each step and rank, in that order.

    Args:
        path: a folder that msprobe or CANN's overflow detection wrote, or one of its
            steps or ranks, or a single overflow record.

    Returns:
        Traces of one step of one rank each. ``meta["notes"]`` says what could not be
        read, in remarks (`numcheck.record.notice`); a step that cannot be read at all
        is a note of the others.

    Raises:
        DumpError: the path is missing or holds no dump of a known tool.
    """
    root = Path(path)
    if not root.exists():
        msg = f"dump {str(path)!r} does not exist"
        raise DumpError(msg)
    folders = find_steps(root) if root.is_dir() else ()
    if folders:
        return _readable(folders)
    if find_records(root):
        return (read_records(root),)
    msg = (
        f"{str(path)!r} is no known dump: it holds neither dump.json files, as msprobe "
        "writes them, nor Opdebug.Node_OpDebug files, as CANN's overflow detection "
        "does; a run folder of numcheck's own is shown by `numcheck report`"
    )
    raise DumpError(msg)


def _readable(folders: tuple[StepFolder, ...]) -> tuple[Trace, ...]:
    found: list[Trace] = []
    lost: list[str] = []
    for folder in folders:
        try:
            found.append(read_step(folder))
        except DumpError as error:
            lost.append(str(error))
    if not found:
        raise DumpError("; ".join(lost))
    first = found[0]
    notes = (*first.meta.get("notes", ()), *lost)
    meta = {**first.meta, "notes": notes}
    return (dataclasses.replace(first, meta=meta), *found[1:])


def read_dump(path: str | os.PathLike[str]) -> Trace:
    """Return a dump as one trace of all its steps and ranks.

    Raises:
        DumpError: the path is missing or holds no dump of a known tool.
    """
    steps = read_steps(path)
    history = TraceHistory()
    for step in steps:
        history.add(step)
    whole = history.trace
    notes = tuple(n for s in steps for n in s.meta.get("notes", ()))
    return Trace(
        sites=() if whole is None else whole.sites,
        summaries={} if whole is None else whole.summaries,
        events=tuple(e for s in steps for e in s.events),
        meta={**steps[0].meta, "notes": notes},
    )
