# SPDX-License-Identifier: Apache-2.0
"""Recording of one step: a jaxpr run equation by equation into a `TraceBuilder`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from numcheck_jax.interpreter.cell import Cell, Frame
from numcheck_jax.interpreter.lifting import Lifting
from numcheck_jax.interpreter.loop import interpret
from numcheck_jax.interpreter.table import CONCRETE
from numcheck_jax.interpreter.tape import NonFiniteFoundError, Tape
from numcheck_jax.phase import guess_losses, phases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import ClosedJaxpr

    from numcheck.record.site import Site
    from numcheck.record.trace import TraceBuilder
    from numcheck_jax.interpreter.graph import Graph

__all__ = ["Recording", "record"]


class Recording(NamedTuple):
    """What a recorded run gave.

    Attributes:
        outs: the program's outputs, flat; empty when the run was stopped early.
        sites: for each output the index of the site whose value it is; None for a
            constant, a flag or a key.
        departures: by site index, the relative L2 error against the shadow.
    """

    outs: list[Any]
    sites: list[int | None]
    departures: dict[int, float]


def record(
    closed: ClosedJaxpr,
    args: Sequence[Any],
    *,
    builder: TraceBuilder,
    in_sites: Sequence[Site],
    loss_outputs: Sequence[int] | None = None,
    shadow: Literal["float32"] | None = None,
    early_stop: bool = False,
) -> Recording:
    """Run a program on concrete values and record every number it computes.

    Args:
        closed: the program.
        args: its flat arguments.
        builder: where the sites and their summaries go, in execution order.
        in_sites: the source site of each argument.
        loss_outputs: positions of the losses among the flat outputs; None when not
            known.
        shadow: run beside it the same program with its lower-precision dtypes
            lifted, and measure how far each value departs.
        early_stop: stop after the first non-finite value born of finite ones.
    """
    lifting = Lifting(shadow) if shadow is not None else None
    tape = Tape(CONCRETE, lifting=lifting, early_stop=early_stop)
    cells = [
        tape.source(value, site) for value, site in zip(args, in_sites, strict=True)
    ]
    consts = [tape.constant(value) for value in closed.consts]
    outs: list[Cell] = []
    try:
        outs = interpret(tape, closed.jaxpr, consts, cells, Frame())
    except NonFiniteFoundError:
        pass
    nodes = [cell.node for cell in outs]
    losses = _losses(tape.graph, nodes, loss_outputs)
    indices = _add_sites(tape.graph, losses, builder)
    departures = {
        index: node.departure
        for node, index in zip(tape.graph.nodes, indices, strict=True)
        if index is not None and node.departure is not None
    }
    sites = [None if node is None else indices[node] for node in nodes]
    return Recording([cell.value for cell in outs], sites, departures)


def _losses(
    graph: Graph, outputs: Sequence[int | None], known: Sequence[int] | None
) -> list[int]:
    if known is None or not outputs:
        return guess_losses(graph, outputs)
    return [node for k in known if (node := outputs[k]) is not None]


def _add_sites(
    graph: Graph, losses: Sequence[int], builder: TraceBuilder
) -> list[int | None]:
    """Add every node that has a site and return their indices."""
    indices: list[int | None] = []
    for node, phase in zip(graph.nodes, phases(graph, losses), strict=True):
        if node.site is None:
            indices.append(None)
            continue
        parents = tuple(i for p in node.parents if (i := indices[p]) is not None)
        site = dataclasses.replace(node.site, phase=phase, parents=parents)
        indices.append(builder.add(site, node.summary))
    return indices
