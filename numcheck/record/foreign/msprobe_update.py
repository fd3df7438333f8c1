# SPDX-License-Identifier: Apache-2.0
"""The optimizer's calls in a dump: parameters, gradients and state by their values."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck.record.foreign.ledger import Ledger, Value
from numcheck.record.foreign.msprobe_backward import keep_gradient, parameter_slope
from numcheck.record.foreign.msprobe_calls import classify
from numcheck.record.foreign.msprobe_forward import numbers
from numcheck.record.foreign.msprobe_kept import keep_value
from numcheck.record.site import Site

if TYPE_CHECKING:
    from numcheck.record.foreign.msprobe_entry import Entry
    from numcheck.record.foreign.msprobe_tensor import Tensor
    from numcheck.record.foreign.weaving import Weaving

__all__ = ["weave_updates"]


def weave_updates(w: Weaving, entries: list[Entry]) -> None:
    """Add the optimizer's calls, and the parameters as they left them."""
    made = Ledger()
    names: dict[int, str] = {}
    for entry in entries:
        _weave(w, entry, made, names)
    for index, name in names.items():
        keep_value(w, index, "parameter", f"parameter:{name}", "optimizer")


def _weave(w: Weaving, entry: Entry, made: Ledger, names: dict[int, str]) -> None:
    read: list[int] = []
    name = ""
    for _, tensor in entry.tensors:
        index = w.sources.get(("parameter", tensor.key))
        if index is not None and not name:
            name = w.names[index]
        else:
            index = _operand(w, entry, tensor, made, name)
        read.append(index)
    family, effect = classify(entry.name.call)
    scope, scope_type = w.place(entry)
    detail, literals = numbers(entry)
    site = Site(
        0, entry.name.op, "optimizer", effect=effect, scope=scope,
        scope_type=scope_type, source=w.lines.get(entry.key), parents=tuple(read),
        literals=literals, family=family,
        detail=(*detail, ("dump_name", entry.key)),
    )  # fmt: skip
    for place, tensor in entry.results:
        index = w.add(dataclasses.replace(site, output=place), tensor)
        made.add(Value(index, tensor))
        if name and place == 0 and entry.name.call.endswith("_"):
            names[index] = name


def _operand(w: Weaving, entry: Entry, tensor: Tensor, made: Ledger, name: str) -> int:
    """Return where an operand beside the parameter came from: a gradient, or state."""
    mine = w.gradient_of.get(name)
    if mine is not None and mine.tensor.key == tensor.key:
        return mine.site
    found = made.find_same(tensor) or w.gradients.find_same(tensor)
    found = found or w.values.find_same(tensor)
    if found is not None:
        return found.site
    owners = [i for i, n in w.names.items() if n == name]
    readers = [r for i in owners for r in w.readers.get(i, ()) if r in w.given]
    if not readers:
        return w.source(tensor, "state", f"{entry.name.call}.{entry.name.number}")
    keep_gradient(w, name, parameter_slope(w, readers, entry, tensor), tensor)
    return len(w.builder.sites) - 1
