# SPDX-License-Identifier: Apache-2.0
"""Forward calls of a dump, and where each of their operands came from."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final, Literal

from numcheck.record.foreign.ledger import Value
from numcheck.record.foreign.msprobe_calls import classify, has_parameters
from numcheck.record.foreign.msprobe_tensor import Number
from numcheck.record.site import Site

if TYPE_CHECKING:
    from numcheck.record.foreign.msprobe_entry import Entry
    from numcheck.record.foreign.msprobe_tensor import Tensor
    from numcheck.record.foreign.weaving import Weaving
    from numcheck.record.site import Phase, Role

__all__ = ["UNRECORDED", "numbers", "weave_forward"]

UNRECORDED: Final = "unrecorded"
"""Operator of a value that the dump shows only after it was made."""

_ARITHMETIC: Final = ("add", "sub", "mul", "div", "pow")
_SWAPPED: Final = ("__rsub__", "__rtruediv__", "__rdiv__", "__rpow__")
_PARAMETER_NAMES: Final = {1: "weight", 2: "bias", 3: "bias"}


def weave_forward(w: Weaving, entry: Entry, phase: Phase = "forward") -> None:
    """Add the sites of one forward call."""
    if entry.name.is_module and entry.key in w.inside:
        _weave_container(w, entry)
        return
    family, effect = classify(entry.name.call)
    parents = [_operand(w, entry, at, tensor) for at, tensor in entry.tensors]
    if entry.name.call in _SWAPPED:
        parents.reverse()
    parents += [
        w.source(tensor, "parameter", _joined(entry.name.path, name))
        for name, tensor in entry.parameters.items()
    ]
    w.note_read(entry.key, parents)
    detail, literals = numbers(entry)
    scope, scope_type = w.place(entry)
    site = Site(
        0, entry.name.op, phase, effect=effect, scope=scope, scope_type=scope_type,
        source=w.lines.get(entry.key), parents=tuple(parents), family=family,
        literals=literals, detail=(*detail, ("dump_name", entry.key)),
    )  # fmt: skip
    _add_results(w, entry, site)


def _add_results(w: Weaving, entry: Entry, site: Site) -> None:
    made = w.made.setdefault(entry.key, [])
    for place, tensor in entry.results:
        index = w.add(dataclasses.replace(site, output=place), tensor)
        made.append(index)
        w.values.add(Value(index, tensor, site.scope))


def _weave_container(w: Weaving, entry: Entry) -> None:
    """Add a module around other calls where it computed something of its own."""
    if all(w.values.find(tensor) is not None for _, tensor in entry.results):
        return
    inside = w.values.unread(entry.name.path)
    parents = [_operand(w, entry, at, t) for at, t in entry.tensors]
    parents += _read(inside)
    unique = list(dict.fromkeys(parents))
    w.note_read(entry.key, unique)
    site = Site(
        0, entry.name.op, "forward", scope=entry.name.path,
        scope_type=entry.name.call, source=w.lines.get(entry.key),
        parents=tuple(unique), detail=(("dump_name", entry.key),),
    )  # fmt: skip
    _add_results(w, entry, site)


def _operand(w: Weaving, entry: Entry, place: int, tensor: Tensor) -> int:
    """Return the site that an operand came from, adding one where none is known."""
    if tensor.requires_grad:
        name = _parameter_name(w, entry, place, tensor)
        if name is not None:
            return w.source(tensor, "parameter", name)
    found = w.values.find(tensor)
    if found is not None:
        found.is_read = True
        return found.site
    made = _unrecorded(w, entry, tensor)
    if made is not None:
        return made
    role = _role(entry, place, tensor)
    index = w.source(tensor, role, _place_name(entry, place))
    w.values.add(Value(index, tensor, is_read=True))
    return index


def _parameter_name(w: Weaving, entry: Entry, place: int, tensor: Tensor) -> str | None:
    """Return the name of the parameter that an operand is; None when it is none."""
    for outer in w.enclosing(entry.key):
        module = w.entries.get(outer)
        if module is None:
            continue
        for name, held in module.parameters.items():
            if held.key == tensor.key and (place > 0 or len(entry.tensors) == 1):
                return _joined(module.name.path, name)
    if place == 0 or not has_parameters(entry.name.call):
        return None
    call = f"{entry.name.call}.{entry.name.number}"
    first = min(at for at, _ in entry.tensors if at > 0)
    return f"{call}.{_PARAMETER_NAMES.get(place - first + 1, f'arg{place}')}"


def _unrecorded(w: Weaving, entry: Entry, tensor: Tensor) -> int | None:
    """Add a value made by calls that were not recorded; None when it was given.

    It is a part of an unread result where it fits into one. Else, when gradients or a
    NaN show that it was computed, it comes from all results that wait to be read.
    """
    part = w.values.sliced_from(tensor)
    if part is not None:
        waiting = [part]
    elif tensor.requires_grad or tensor.summary.has_nan:
        waiting = _waiting(w, entry)
    else:
        return None
    parents = _read(waiting)
    if not parents:
        return None
    scope, scope_type = w.place(entry)
    site = Site(
        0, UNRECORDED, "forward", effect="compute" if part is None else "move",
        scope=scope, scope_type=scope_type, source=w.lines.get(entry.key),
        parents=tuple(parents), detail=(("read_by", entry.key),),
    )  # fmt: skip
    index = w.add(site, tensor)
    key = f"{UNRECORDED}#{index}"
    w.made[key] = [index]
    w.note_read(key, parents)
    w.values.add(Value(index, tensor, scope, is_read=True))
    return index


def _waiting(w: Weaving, entry: Entry) -> list[Value]:
    """Return the unread results of the nearest module around a call that has any."""
    for outer in w.enclosing(entry.key):
        module = w.entries.get(outer)
        found = w.values.unread(module.name.path) if module is not None else []
        if found:
            return found
    return w.values.unread()


def _read(values: list[Value]) -> list[int]:
    for value in values:
        value.is_read = True
    return [value.site for value in values]


def _role(entry: Entry, place: int, tensor: Tensor) -> Role:
    if classify(entry.name.call)[0] == "loss" and place > 0:
        return "target"
    if place > 0 and has_parameters(entry.name.call):
        return "buffer"
    # A batch holds no infinities; a mask does, and is written by the program.
    held = tensor.summary
    return "constant" if held.has_inf and not held.has_nan else "input"


def _place_name(entry: Entry, place: int) -> str:
    label = entry.inputs[place][0] or str(place)
    return f"{entry.name.call}.{entry.name.number}.{label}"


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def numbers(
    entry: Entry,
) -> tuple[
    tuple[tuple[str, str | float], ...], tuple[Literal["nan", "+inf", "-inf"], ...]
]:
    """Return a call's scalar arguments: those worth naming, and the non-finite ones."""
    family, _ = classify(entry.name.call)
    detail: list[tuple[str, str | float]] = []
    literals: list[Literal["nan", "+inf", "-inf"]] = []
    for place, (label, value) in enumerate(entry.inputs):
        number = value.real if isinstance(value, Number) else None
        if number is None:
            continue
        if not math.isfinite(number):
            literals.append(_literal(number))
        if label:
            detail.append((label, number))
        elif family in _ARITHMETIC and place < 2:
            at = 1 - place if entry.name.call in _SWAPPED else place
            detail.append((f"operand{at}", number))
        elif family in ("softmax", "log_softmax", "logsumexp") and place == 1:
            detail.append(("dim", number))
        elif family == "normalisation" and 0 < number < 1:
            detail.append(("eps", number))
    return tuple(detail), tuple(literals)


def _literal(number: float) -> Literal["nan", "+inf", "-inf"]:
    if math.isnan(number):
        return "nan"
    return "+inf" if number > 0 else "-inf"
