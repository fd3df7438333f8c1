# SPDX-License-Identifier: Apache-2.0
"""Folders of CANN's overflow detection: overflow records, and the operators' names.

    Opdebug.Node_OpDebug.{task}.{stream}.{time}[.output.0.json]   what overflowed
    {type}.{name}.{task}.{stream}.{time}[.input.0.npy]            the operator at it

The numbers inside a record say at which task and stream; that of its own file name
does not.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

from numcheck.errors import DumpError
from numcheck.record.damage import UNREADABLE
from numcheck.record.foreign.cann_status import (
    overflows_in_bytes,
    overflows_in_json,
)
from numcheck.record.foreign.lenient_json import read_json
from numcheck.record.foreign.msprobe_calls import classify
from numcheck.record.notice import notice
from numcheck.record.site import Site
from numcheck.record.trace import TraceBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from numcheck.measure.summary import Summary
    from numcheck.record.foreign.cann_status import (
        Overflow,
    )
    from numcheck.record.trace import Trace

__all__ = ["find_records", "read_records"]

_RECORD: Final = re.compile(
    r"Opdebug\.Node_OpDebug\.\d+(?:\.\d+)?\.(?P<time>\d+)", re.IGNORECASE
)
_OPERATOR: Final = re.compile(
    r"(?P<type>[\w-]+)\.(?P<name>[\w-]+)\.(?P<task>\d+)\.(?P<stream>\d+)\.(?P<time>\d+)"
    r"(?:\.(?P<way>input|output)\.(?P<place>\d+)\.npy)?"
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Operator:
    type: str
    name: str
    arrays: tuple[tuple[str, int, Path], ...]


def find_records(root: Path) -> tuple[Path, ...]:
    """Return the overflow records in a folder, the earliest first."""
    paths = [root] if root.is_file() else root.rglob("*")
    found = [(m["time"], p) for p in paths if (m := _RECORD.match(p.name))]
    return tuple(p for _, p in sorted(found, key=lambda item: (int(item[0]), item[1])))


def read_records(root: Path) -> Trace:
    """Return the operators that a device's own detection saw overflow, in order.

    Each is a site with its status in `detail`; nothing else is known of it unless its
    dumped values lie beside it as ``.npy`` files.

    Raises:
        DumpError: there is no record, or none can be read.
    """
    notes: list[str] = []
    errors: list[str] = []
    overflows: dict[Overflow, None] = {}
    records = find_records(root)
    for path in records:
        try:
            overflows.update(dict.fromkeys(_overflows(path, notes)))
        except DumpError as error:
            errors.append(f"{path.name}: {error}")
            notes.append(notice("unread.file", file=path.name, error=error))
    if not records or (not overflows and notes):
        holds = f"{root} holds no overflow record that can be read"
        msg = "; ".join([holds, *errors])
        raise DumpError(msg)
    operators = _operators(root if root.is_dir() else root.parent)
    builder = TraceBuilder(0)
    for overflow in overflows:
        known = operators.get((overflow.task, overflow.stream))
        _add(builder, overflow, known, notes)
    return builder.build(source="cann", notes=tuple(notes))


def _overflows(path: Path, notes: list[str]) -> tuple[Overflow, ...]:
    if path.suffix == ".json":
        return overflows_in_json(read_json(path, notes))
    try:
        return overflows_in_bytes(path.read_bytes())
    except OSError as error:
        msg = f"cannot be read: {error}"
        raise DumpError(msg) from error


def _operators(root: Path) -> dict[tuple[int, int], _Operator]:
    found: dict[tuple[int, int], _Operator] = {}
    for path in sorted(root.rglob("*")):
        match = _OPERATOR.match(path.name)
        if match is None or _RECORD.match(path.name):
            continue
        at = int(match["task"]), int(match["stream"])
        before = found.get(at, _Operator(match["type"], match["name"], ()))
        array = ((match["way"], int(match["place"]), path),) if match["way"] else ()
        found[at] = dataclasses.replace(before, arrays=(*before.arrays, *array))
    return found


def _add(
    builder: TraceBuilder, overflow: Overflow, known: _Operator | None, notes: list[str]
) -> None:
    """Add an operator's site, its operands as sources, and its result as kept.

    What overflowed is kept by definition: a device reports no other values.
    """
    name = f"task{overflow.task}" if known is None else known.type
    held = [] if known is None else sorted(known.arrays, key=lambda a: (a[0], a[1]))
    given = [a for a in held if a[0] == "input"]
    parents = tuple(_source(builder, name, a, notes) for a in given)
    detail: list[tuple[str, str | float]] = [
        ("overflow_unit", overflow.unit),
        ("overflow_status", float(overflow.status)),
        ("overflow_reasons", ",".join(overflow.reasons)),
        ("task", float(overflow.task)),
        ("stream", float(overflow.stream)),
    ]
    family, effect = classify(name)
    site = Site(
        0, name, "forward", effect=effect, family=family, parents=parents,
        scope="" if known is None else known.name, detail=tuple(detail),
    )  # fmt: skip
    results = [a for a in held if a[0] == "output"]
    made = [_measured(builder, site, a, notes) for a in results] or [builder.add(site)]
    for index in made:
        at = builder.sites[index]
        kept = Site(
            0, f"output:{name}", "forward", "kept", "output", "move",
            dtype=at.dtype, shape=at.shape, scope=site.scope, parents=(index,),
        )  # fmt: skip
        builder.add(kept, builder.summaries.get(index))


def _source(
    builder: TraceBuilder, name: str, array: tuple[str, int, Path], notes: list[str]
) -> int:
    op = f"constant:{name}.input.{array[1]}"
    site = Site(0, op, "data", "source", "constant", "move")
    return _measured(builder, site, array, notes)


def _measured(
    builder: TraceBuilder, site: Site, array: tuple[str, int, Path], notes: list[str]
) -> int:
    loaded = _load(array[2], notes)
    if loaded is None:
        return builder.add(site)
    dtype, shape, summary = loaded
    place = array[1] if site.kind == "operator" else 0
    described = dataclasses.replace(site, dtype=dtype, shape=shape, output=place)
    return builder.add(described, summary)


def _load(path: Path, notes: list[str]) -> tuple[str, tuple[int, ...], Summary] | None:
    import numpy as np

    from numcheck.measure import summarize

    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
        return values.dtype.name, values.shape, summarize(values)
    except UNREADABLE as error:
        notes.append(notice("unread.file", file=path.name, error=error))
        return None
