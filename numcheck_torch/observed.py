# SPDX-License-Identifier: Apache-2.0
"""What of a step can still be looked at when it cannot be run again.

No operator is known then: only what went in and what came out.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck.record.site import Site
from numcheck.record.trace import TraceBuilder
from numcheck_torch.batch import Batch
from numcheck_torch.dtypes import format_name
from numcheck_torch.sentinel import local
from numcheck_torch.statistics import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Kind, Phase, Role
    from numcheck.record.trace import Trace
    from numcheck_torch.program import Program

__all__ = ["observed"]


def observed(
    step: int,
    model: torch.nn.Module,
    program: Program,
    losses: Iterable[torch.Tensor],
    gradients: Iterable[tuple[str, torch.Tensor]],
    checked: Iterable[tuple[Site, Summary]] = (),
    **meta: str,
) -> Trace:
    """Return a trace of a step's sources and kept values alone.

    Args:
        step: its number.
        model: its parameters and buffers are sources.
        program: what went in, as far as it is known.
        losses: what was differentiated.
        gradients: (name, gradient) of each parameter.
        checked: what the user checks by hand.
        **meta: written into the trace.
    """
    builder = TraceBuilder(step)
    batch = Batch(model, program)
    for name, tensor in batch.inputs:
        _add(builder, tensor, f"input:{name}", "input", "data")
    for name, tensor in batch.targets:
        _add(builder, tensor, f"input:{name}", "target", "data")
    held = [
        (name, _add(builder, parameter, f"parameter:{name}", "parameter", "forward"))
        for name, parameter in model.named_parameters()
    ]
    for name, buffer in model.named_buffers():
        _add(builder, buffer, f"buffer:{name}", "buffer", "forward")
    roots = [
        _add(builder, loss, "loss", "loss", "forward", kind="kept") for loss in losses
    ]
    for name, gradient in gradients:
        op = f"gradient:{name}"
        index = _add(builder, gradient, op, "gradient", "backward", kind="kept")
        builder.extend_parents(index, roots)
    for site, summary in checked:
        builder.add(site, summary)
    if not any(_is_bad(builder, s.index) for s in builder.sites if s.kind == "kept"):
        # A bad parameter that the step did not use shows in nothing else.
        for name, source in held:
            if _is_bad(builder, source):
                _leave(builder, source, f"parameter:{name}")
    return builder.build(**meta)


def _is_bad(builder: TraceBuilder, index: int) -> bool:
    held = builder.summaries.get(index)
    return held is not None and held.is_finite is False


def _leave(builder: TraceBuilder, source: int, op: str) -> None:
    """Add that what a step was given is also what it leaves."""
    given = builder.sites[source]
    kept = dataclasses.replace(given, index=-1, op=op, phase="optimizer", kind="kept")
    at = builder.add(kept, builder.summaries[source])
    builder.extend_parents(at, [source])


def _add(
    builder: TraceBuilder,
    tensor: torch.Tensor,
    op: str,
    role: Role,
    phase: Phase,
    kind: Kind = "source",
) -> int:
    value = local(tensor.detach())
    site = Site(
        index=-1,
        op=op,
        phase=phase,
        kind=kind,
        role=role,
        effect="move",
        dtype=format_name(value.dtype),
        shape=tuple(value.shape),
    )
    return builder.add(site, summarize(value))
