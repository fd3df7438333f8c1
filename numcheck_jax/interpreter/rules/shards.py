# SPDX-License-Identifier: Apache-2.0
"""`shard_map`: its body runs on every device, and each device gives its own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
from jax.sharding import PartitionSpec

from numcheck_jax.interpreter.body import Body, adopt, lane
from numcheck_jax.interpreter.cell import Cell
from numcheck_jax.interpreter.rows import Rows, decode_into, merged, vary
from numcheck_jax.interpreter.staged import StagedTape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import JaxprEqn

    from numcheck_jax.interpreter.cell import Frame
    from numcheck_jax.interpreter.concrete import ConcreteTape

__all__ = ["shard_map", "staged_shard_map"]


def shard_map(
    tape: ConcreteTape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Run the body compiled, and note in which shard a value first went wrong."""
    from numcheck_jax.interpreter.table import REPLAYED

    staged = StagedTape(
        REPLAYED,
        tape.lifting,
        policy=lambda _eqn: True,
        measure="full",
        elements=True,
    )
    found, rows, body = _mapped(staged, eqn, operands, frame, compiled=True)
    outputs, measured = adopt(tape.graph, body, [c.node for c in operands], {})
    for shard in range(rows.runs.shape[0]):
        part = Rows(*(x[shard] for x in rows))
        decode_into(tape.graph, measured, part, frame.iteration, shard=shard)
    return [Cell(x.value, n, x.shadow) for x, n in zip(found, outputs, strict=True)]


def staged_shard_map(
    tape: StagedTape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Rebuild the shard_map with the rows of all devices merged."""
    found, rows, body = _mapped(tape, eqn, operands, frame, compiled=False)
    outputs, measured = adopt(tape.graph, body, [c.node for c in operands], {})
    parts = [Rows(*(x[k] for x in rows)) for k in range(rows.runs.shape[0])]
    total = parts[0]
    for part in parts[1:]:
        total = merged(total, part, tape.columns)
    tape.add(measured, total)
    return [Cell(x.value, n, x.shadow) for x, n in zip(found, outputs, strict=True)]


def _mapped(
    tape: StagedTape,
    eqn: JaxprEqn,
    operands: Sequence[Cell],
    frame: Frame,
    *,
    compiled: bool,
) -> tuple[list[Any], Rows, Body]:
    """Return the outputs, the rows with one more axis for the shards, and the body."""
    p = eqn.params
    mesh = p["mesh"]
    axes = p.get("newly_manual_axes") or p.get("manual_axes") or mesh.axis_names
    names = tuple(sorted(axes, key=str))
    body = Body(tape, p["jaxpr"], frame)

    def run(*lanes: Any) -> Any:
        found, rows = body.run(lanes)
        spread = [vary(x, names) if p["check_vma"] else x for x in rows]
        return found, Rows(*(x[None] for x in spread))

    function = jax.shard_map(
        run,
        mesh=mesh,
        in_specs=tuple(p["in_specs"]),
        out_specs=(list(p["out_specs"]), PartitionSpec(names)),
        check_vma=p["check_vma"],
        axis_names=set(names),
    )
    if compiled:
        function = jax.jit(function)
    found, rows = function(*(lane(tape, cell) for cell in operands))
    return found, rows, body
