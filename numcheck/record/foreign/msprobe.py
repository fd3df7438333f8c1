# SPDX-License-Identifier: Apache-2.0
"""msprobe dumps: ``step{N}/rank{R}/{dump,stack,construct}.json`` and tensors.

Statistics and tensor dumps of levels L0 (modules), L1 (functions) and mix, of any
number of steps and ranks.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

from numcheck.errors import DumpError
from numcheck.record.damage import DAMAGE
from numcheck.record.foreign.lenient_json import read_json
from numcheck.record.foreign.msprobe_backward import weave_backward, weave_gradients
from numcheck.record.foreign.msprobe_entry import parse_entry
from numcheck.record.foreign.msprobe_forward import weave_forward
from numcheck.record.foreign.msprobe_kept import keep_loose_gradients, keep_results
from numcheck.record.foreign.msprobe_stack import source_lines
from numcheck.record.foreign.msprobe_update import weave_updates
from numcheck.record.foreign.weaving import Weaving
from numcheck.record.notice import notice
from numcheck.record.trace import TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from numcheck.record.foreign.msprobe_entry import Entry
    from numcheck.record.trace import Trace

__all__ = ["StepFolder", "find_steps", "read_step"]

_STEP: Final = re.compile(r"step(\d+)$")
_RANK: Final = re.compile(r"rank(\d+)$")
_DUMP: Final = "dump.json"
_OF_UPDATES: Final = ("optimizer", "clip_grad")


@dataclasses.dataclass(frozen=True, slots=True)
class StepFolder:
    """A folder with the dump of one step of one rank."""

    step: int
    rank: int
    path: Path


def find_steps(root: Path) -> tuple[StepFolder, ...]:
    """Return the dumps in a folder, by step and rank; empty when there is none.

    A folder ``proc{PID}``, as a run without ranks leaves it, counts as the next rank.
    """
    folders = sorted(p.parent for p in root.rglob(_DUMP))
    found = []
    for folder in folders:
        step, rank = _numbered(folder, root, _STEP), _numbered(folder, root, _RANK)
        beside = [f for f in folders if f.parent == folder.parent]
        found.append(
            StepFolder(
                step=0 if step is None else step,
                rank=beside.index(folder) if rank is None else rank,
                path=folder,
            )
        )
    return tuple(sorted(found, key=lambda f: (f.step, f.rank)))


def _numbered(folder: Path, root: Path, pattern: re.Pattern[str]) -> int | None:
    for part in (folder, *folder.parents):
        match = pattern.match(part.name)
        if match is not None:
            return int(match[1])
        if part == root:
            break
    return None


def read_step(folder: StepFolder) -> Trace:
    """Return one step of one rank as a trace; ``meta["notes"]`` says what was lost.

    Raises:
        DumpError: there is no dump, or nothing in it can be read.
    """
    notes: list[str] = []
    dump = read_json(folder.path / _DUMP, notes)
    entries = _entries(dump, notes)
    _check(entries.values(), str(dump.get("task", "")), folder.path / _DUMP)
    construct = _optional(folder.path / "construct.json", notes)
    builder = TraceBuilder(folder.step, folder.rank)
    weaving = Weaving(
        builder=builder,
        entries=entries,
        construct={k: v for k, v in construct.items() if isinstance(v, str | None)},
        lines=source_lines(_optional(folder.path / "stack.json", notes)),
        tensors=folder.path / "dump_tensor_data",
        notes=notes,
    )
    _weave(weaving)
    return builder.build(
        source="msprobe",
        framework=str(dump.get("framework", "")),
        task=str(dump.get("task", "")),
        level=str(dump.get("level", "")),
        notes=tuple(notes),
    )


def _check(entries: Collection[Entry], task: str, path: Path) -> None:
    """See that there is something to be read.

    Raises:
        DumpError: there are no calls, or of none of them any value.
    """
    again = "dump again with task statistics (summary_mode statistics or md5) or tensor"
    if task == "structure":
        raise DumpError(f"{path} records the names of calls and no values: {again}")
    held = [t for e in entries for _, t in (*e.tensors, *e.results)]
    held += [t for e in entries for t in e.parameters.values()]
    if held and not any(t.is_measured for t in held):
        raise DumpError(f"{path} holds checksums of tensors and no values: {again}")
    if not entries:
        raise DumpError(f"{path} holds no call that can be read")


def _optional(path: Path, notes: list[str]) -> dict[str, Any]:
    if not path.is_file():
        notes.append(notice("unread.no_file", file=path.name))
        return {}
    try:
        return read_json(path, notes)
    except DumpError as error:
        notes.append(str(error))
        return {}


def _entries(dump: Mapping[str, Any], notes: list[str]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    data = dump.get("data")
    for key, body in (data if isinstance(data, dict) else {}).items():
        try:
            entry = parse_entry(key, body)
        except DAMAGE as error:
            notes.append(notice("unread.call", name=key, error=repr(error)))
            continue
        if entry is None:
            notes.append(notice("unread.call_of_no_kind", name=key))
        else:
            found[key] = entry
    return found


def _weave(w: Weaving) -> None:
    """Add all sites: forward, loss, backward, parameters' gradients, optimizer."""
    order = list(w.entries.values())
    backward = [e for e in order if e.name.way == "backward"]
    last = max((i for i, e in enumerate(order) if e.name.way == "backward"), default=-1)
    updates = [
        e
        for i, e in enumerate(order)
        if e.name.way == "forward" and _is_update(w, e, after=0 <= last < i)
    ]
    chosen = {e.key for e in updates}
    for entry in order:
        if entry.name.way == "forward" and entry.key not in chosen:
            weave_forward(w, entry)
    keep_results(w, backward)
    for entry in backward:
        weave_backward(w, entry)
    for entry in order:
        if entry.name.way == "parameters_grad":
            weave_gradients(w, entry)
    weave_updates(w, updates)
    if not any(s.role == "gradient" for s in w.builder.sites):
        keep_loose_gradients(w)


def _is_update(w: Weaving, entry: Entry, *, after: bool) -> bool:
    """Whether a call belongs to the optimizer, or handles gradients before it does."""
    outer = w.construct.get(entry.key)
    return outer in _OF_UPDATES or (after and outer is None)
