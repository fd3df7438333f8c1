# SPDX-License-Identifier: Apache-2.0
"""The body of a loop or a branch that is compiled: run apart, then put in place."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from numcheck_jax.columns import is_float
from numcheck_jax.interpreter.cell import Cell
from numcheck_jax.interpreter.graph import Node
from numcheck_jax.interpreter.loop import interpret_closed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jax.extend.core import ClosedJaxpr, Jaxpr

    from numcheck_jax.interpreter.cell import Frame
    from numcheck_jax.interpreter.graph import Graph
    from numcheck_jax.interpreter.rows import Rows
    from numcheck_jax.interpreter.staged import StagedTape
    from numcheck_jax.interpreter.tape import Tape

    After = Callable[[StagedTape, list[Cell], list[Cell]], list[Cell]]

__all__ = ["Body", "Lane", "adopt", "lane"]


class Lane(NamedTuple):
    """A value on its way into or out of a body.

    Attributes:
        value: the program's value.
        shadow: the lifted program's value, always given for floats of a run with a
            shadow, so that loops keep their structure; None otherwise.
    """

    value: Any
    shadow: Any = None


def lane(tape: Tape, cell: Cell) -> Lane:
    """Return a cell's value in the form in which bodies take it."""
    if tape.lifting is None:
        return Lane(cell.value)
    dtype = getattr(cell.value, "dtype", None)
    if dtype is None or not is_float(dtype):
        return Lane(cell.value)
    shadow = cell.lifted
    return Lane(cell.value, tape.lifting.value(shadow))


class Body:
    """A jaxpr that is run on a tape of its own, possibly several times.

    The tape of the last run describes it: every run notes the same nodes.
    """

    def __init__(
        self, tape: StagedTape, closed: ClosedJaxpr | Jaxpr, frame: Frame
    ) -> None:
        """Prepare to run `closed` for `tape`."""
        self._tape = tape
        self._closed = closed
        self._frame = frame
        self.tape = tape
        self.outputs: list[int | None] = []

    def run(
        self, lanes: Sequence[Lane], *, elements: int = 0, after: After | None = None
    ) -> tuple[list[Lane], Rows]:
        """Run it and return its outputs and the rows of its values.

        Args:
            lanes: its operands.
            elements: how many of the last operands are elements of sequences.
            after: what the loop does to the body's outputs.
        """
        tape = self.tape = self._tape.child()
        cells = [Cell(x.value, tape.graph.add(Node()), x.shadow) for x in lanes]
        for i in range(len(cells) - elements, len(cells)):
            cell = cells[i]
            cells[i] = tape.derived(
                "scan", "loop", [cell], cell.value, self._frame, shadow=cell.shadow
            )
        found = interpret_closed(tape, self._closed, cells, self._frame)
        if after is not None:
            found = after(tape, found, cells)
        self.outputs = [cell.node for cell in found]
        return [lane(tape, cell) for cell in found], tape.rows()


def adopt(
    graph: Graph,
    body: Body,
    operands: Sequence[int | None],
    carried: Mapping[int, int],
) -> tuple[list[int | None], list[int]]:
    """Copy the nodes of a body into the graph of the program around it.

    Args:
        graph: where they go.
        body: a body that was run.
        operands: nodes of its operands.
        carried: for each operand that a loop hands on, the output it comes from.

    Returns:
        The nodes of its outputs, and the nodes of its rows.
    """
    start = len(graph.nodes)
    for i, node in enumerate(body.tape.graph.nodes):
        if i < len(operands):
            origin = operands[i]
            late = body.outputs[carried[i]] if i in carried else None
            stand_in = Node(() if origin is None else (origin,), is_through=True)
            stand_in.late = () if late is None else (start + late,)
            graph.add(stand_in)
            continue
        parents = tuple(start + p for p in node.parents)
        late_parents = tuple(start + p for p in node.late)
        graph.add(dataclasses.replace(node, parents=parents, late=late_parents))
    outputs = [None if n is None else start + n for n in body.outputs]
    return outputs, [start + n for n in body.tape.measured]
