# SPDX-License-Identifier: Apache-2.0
"""What a step of a dump handed back: loss, outputs, gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.record.foreign.msprobe_backward import keep_gradient
from numcheck.record.site import Site
from numcheck.record.trace import Event

if TYPE_CHECKING:
    from numcheck.record.foreign.msprobe_entry import Entry
    from numcheck.record.foreign.weaving import Weaving
    from numcheck.record.site import Phase, Role

__all__ = ["keep_loose_gradients", "keep_results", "keep_value"]


def keep_results(w: Weaving, backward: list[Entry]) -> None:
    """Add the loss, or where none is seen the outputs, as values the user keeps.

    The loss is the scalar from which the backward run starts.
    """
    first = next((e for e in backward if e.results or e.tensors), None)
    loss = w.made.get(first.name.turned("forward"), []) if first else []
    scalars = [i for i in loss if _elements(w, i) == 1]
    if scalars:
        keep_value(w, scalars[0], "loss", "loss", "forward")
        _note_scalars(w, scalars[0], first)
    for value in list(w.values.unread()):
        site = w.builder.sites[value.site]
        if site.kind != "operator" or value.site in loss or not _is_floating(site):
            continue
        is_loss = backward == [] and _elements(w, value.site) == 1
        role: Role = "loss" if is_loss else "output"
        keep_value(w, value.site, role, f"{role}:{site.op}", "forward")


def keep_loose_gradients(w: Weaving) -> None:
    """Add the gradients that nothing read, where the dump names no parameters."""
    for key, held in w.slopes.items():
        call = w.entries[key].name if key in w.entries else None
        for place, value in enumerate(held):
            if not value.is_read and call is not None:
                name = f"{call.call}.{call.number}.{place}"
                keep_gradient(w, name, value.site, value.tensor)


def keep_value(w: Weaving, index: int, role: Role, op: str, phase: Phase) -> None:
    """Add the value at a site as one the user keeps."""
    made = w.builder.sites[index]
    site = Site(
        0, op, phase, "kept", role, "move", dtype=made.dtype, shape=made.shape,
        scope=made.scope, source=made.source, parents=(index,),
    )  # fmt: skip
    w.builder.add(site, w.builder.summaries.get(index))


def _note_scalars(w: Weaving, loss: int, first: Entry | None) -> None:
    held = w.builder.summaries.get(loss)
    if held is not None and held.low is not None:
        w.builder.events.append(Event("loss", w.builder.step, held.low, w.builder.rank))
    start = first.tensors[0][1].summary if first and first.tensors else None
    scale = None if start is None else start.amax
    if (
        scale is not None
        and scale > 1
        and (scale.hex().startswith("0x1.0000000000000"))
    ):
        # A backward run starts from 1; a power of two above it is a loss scale.
        w.builder.events.append(
            Event("loss_scale", w.builder.step, scale, w.builder.rank)
        )


def _elements(w: Weaving, index: int) -> int:
    count = 1
    for n in w.builder.sites[index].shape:
        count *= n
    return count


def _is_floating(site: Site) -> bool:
    return "float" in site.dtype
