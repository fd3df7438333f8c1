# SPDX-License-Identifier: Apache-2.0
"""Backward calls of a dump: the gradient of each forward call.

Gradients flow along the forward edges, the other way round, so what a backward call
was given came from the backward calls of those who read its forward results. The dump
shows only the last of the autograd nodes behind a function; what came between is one
``unrecorded`` site.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck.record.foreign.ledger import Value, among
from numcheck.record.foreign.msprobe_calls import saves, slope_family
from numcheck.record.foreign.msprobe_forward import UNRECORDED, numbers
from numcheck.record.site import Site

if TYPE_CHECKING:
    from numcheck.record.foreign.msprobe_entry import Entry
    from numcheck.record.foreign.msprobe_tensor import Tensor
    from numcheck.record.foreign.weaving import Weaving

__all__ = [
    "keep_gradient",
    "parameter_slope",
    "weave_backward",
    "weave_gradients",
]


def weave_backward(w: Weaving, entry: Entry) -> None:
    """Add the sites of one backward call."""
    forward = w.entries.get(entry.name.turned("forward"))
    key = entry.key if forward is None else forward.key
    if forward is not None and key not in w.made:
        return  # a module around other calls: its parts speak for it
    given = [_gradient(w, key, entry, tensor) for _, tensor in entry.tensors]
    w.given[key] = given
    site = _slope(w, key, entry, given)
    slopes = w.slopes.setdefault(key, [])
    for place, tensor in entry.results:
        index = w.add(dataclasses.replace(site, output=place), tensor)
        slopes.append(Value(index, tensor, site.scope))


def _slope(w: Weaving, key: str, entry: Entry, given: list[int]) -> Site:
    """Return what the gradients that a call gives have in common."""
    forward = w.entries.get(key, entry)
    scope, scope_type = w.place(forward)
    detail, _ = numbers(forward)
    named = (("forward_op", forward.name.op), ("dump_name", entry.key))
    return Site(
        0, entry.name.op, "backward", scope=scope, scope_type=scope_type,
        source=w.lines.get(key), parents=(*given, *_saved(w, key, forward)),
        family=slope_family(entry.name.call), detail=(*detail, *named),
    )  # fmt: skip


def _saved(w: Weaving, key: str, forward: Entry) -> list[int]:
    """Return the forward values that a call's gradient is computed from."""
    kept = saves(forward.name.call)
    read, made = w.read.get(key, []), w.made.get(key, [])
    if slope_family(forward.name.call) == "div":
        # The divisor stands first: x / y, log(y) by y; sqrt and norm by their result.
        inputs = read[1:] + read[:1]
        return made if kept == "result" else inputs
    inputs = read if kept in ("inputs", "both") else []
    return inputs + (made if kept in ("result", "both") else [])


def _gradient(w: Weaving, key: str, entry: Entry, tensor: Tensor) -> int:
    """Return the site of a gradient that a backward call was given."""
    readers = [r for r in w.consumers(key) if r in w.slopes]
    values = [v for r in readers for v in w.slopes[r]]
    found = among(tensor, values)
    if found is None and not values:
        everything = [v for held in w.slopes.values() for v in held]
        found = among(tensor, everything) if everything else None
    if found is not None:
        found.is_read = True
        return found.site
    if values:
        return _between(w, key, entry, tensor, readers)
    if tensor.summary.n == 1 or not w.made.get(key):
        return w.source(tensor, "constant", "gradient of the result")
    return _from_outside(w, key, entry, tensor)


def _from_outside(w: Weaving, key: str, entry: Entry, tensor: Tensor) -> int:
    """Add a gradient that calls which were not recorded, the loss say, gave back."""
    site = Site(
        0, UNRECORDED, "backward", parents=tuple(w.made[key]),
        detail=(("read_by", entry.key),),
    )  # fmt: skip
    return w.add(site, tensor)


def _between(
    w: Weaving, key: str, entry: Entry, tensor: Tensor, readers: list[str]
) -> int:
    """Add a gradient that lies between two recorded ones.

    Of one reader it is the rest of that call's own backward run; of several it is
    their sum.
    """
    parents = [v.site for r in readers for v in w.slopes[r]]
    for reader in readers:
        for value in w.slopes[reader]:
            value.is_read = True
        parents += _saved(w, reader, w.entries[reader])
    single = w.entries[readers[0]] if len(readers) == 1 else None
    owner = w.entries.get(key, entry) if single is None else single
    scope, scope_type = w.place(owner)
    site = Site(
        0, UNRECORDED if single is None else single.name.op, "backward",
        scope=scope, scope_type=scope_type, source=w.lines.get(owner.key),
        parents=tuple(dict.fromkeys(parents)),
        family="add" if single is None else slope_family(single.name.call),
        detail=() if single is None else (("forward_op", single.name.op),),
    )  # fmt: skip
    index = w.add(site, tensor)
    if single is not None:
        w.slopes[single.key].append(Value(index, tensor, scope, is_read=True))
    return index


def weave_gradients(w: Weaving, entry: Entry) -> None:
    """Add the gradients of one module's parameters as values the user keeps."""
    path = entry.name.path
    module = entry.name.turned("forward")
    calls = [k for k in (module, *w.inside.get(module, ())) if k in w.given]
    values = [v for key in calls for v in w.slopes.get(key, ())]
    for name, tensor in entry.parameters.items():
        full = f"{path}.{name}" if path else name
        found = among(tensor, values)
        index = found.site if found else parameter_slope(w, calls, entry, tensor)
        if found:
            found.is_read = True
        keep_gradient(w, full, index, tensor)


def keep_gradient(w: Weaving, name: str, index: int, tensor: Tensor) -> None:
    """Add a parameter's gradient, which lies at `index`, as a value the user keeps."""
    made = w.builder.sites[index]
    kept = Site(
        0, f"gradient:{name}", "backward", "kept", "gradient", "move",
        scope=made.scope, scope_type=made.scope_type, parents=(index,),
    )  # fmt: skip
    value = Value(w.add(kept, tensor), tensor, made.scope)
    w.gradient_of[name] = value
    w.gradients.add(value)


def parameter_slope(w: Weaving, calls: list[str], entry: Entry, tensor: Tensor) -> int:
    """Add a parameter's gradient of which the dump does not show how it was made.

    Args:
        w: the step.
        calls: the forward calls that read the parameter.
        entry: the entry that shows the gradient.
        tensor: the gradient.
    """
    parents = [p for key in calls for p in (*w.given.get(key, ()), *w.read[key])]
    owner = w.entries[calls[0]] if calls else entry
    single = len(calls) == 1
    scope, scope_type = w.place(owner)
    site = Site(
        0, owner.name.op if single else UNRECORDED, "backward",
        scope=scope, scope_type=scope_type, source=w.lines.get(owner.key),
        parents=tuple(dict.fromkeys(parents)),
        family=slope_family(owner.name.call) if single else "",
        detail=(("forward_op", owner.name.op), ("dump_name", entry.key)),
    )  # fmt: skip
    return w.add(site, tensor)
