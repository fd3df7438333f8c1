# SPDX-License-Identifier: Apache-2.0
"""Recording of one step: a jaxpr run equation by equation into a `TraceBuilder`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from numcheck_jax.interpreter.cell import Frame
from numcheck_jax.interpreter.concrete import ConcreteTape, NonFiniteFoundError
from numcheck_jax.interpreter.lifting import Lifting
from numcheck_jax.interpreter.loop import interpret
from numcheck_jax.interpreter.rules.refs import fresh_references
from numcheck_jax.interpreter.table import CONCRETE
from numcheck_jax.listing import listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import ClosedJaxpr

    from numcheck.record.site import Site
    from numcheck.record.trace import TraceBuilder
    from numcheck_jax.interpreter.cell import Cell

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
    compares: bool = True,
) -> Recording:
    """Run a program on concrete values and record every number it computes.

    Args:
        closed: the program.
        args: its flat arguments; for a reference itself or what it held.
        builder: where the sites and their summaries go, in execution order.
        in_sites: the source site of each argument.
        loss_outputs: positions of the losses among the flat outputs; None when not
            known.
        shadow: run beside it the same program with its lower-precision dtypes
            lifted, and measure how far each value departs.
        early_stop: stop after the first non-finite value born of finite ones.
        compares: False runs the shadow for what it compiled alone.
    """
    lifting = Lifting(shadow) if shadow is not None else None
    tape = ConcreteTape(CONCRETE, lifting, early_stop=early_stop, compares=compares)
    values = fresh_references(closed, args)
    cells = [
        tape.source(value, site) for value, site in zip(values, in_sites, strict=True)
    ]
    consts = [tape.constant(value) for value in closed.consts]
    outs: list[Cell] = []
    with contextlib.suppress(NonFiniteFoundError):
        outs = interpret(tape, closed.jaxpr, consts, cells, Frame())
    nodes = [cell.node for cell in outs]
    listed = listing(
        tape.graph, nodes, loss_outputs, offset=len(builder.sites), bridges=False
    )
    departures = {}
    for site, index in zip(listed.sites, listed.nodes, strict=True):
        node = tape.graph.nodes[index]
        builder.add(site, node.summary)
        if node.departure is not None:
            departures[site.index] = node.departure
    sites = [listed.site_of(node) for node in nodes]
    return Recording([cell.value for cell in outs], sites, departures)
