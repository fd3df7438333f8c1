# SPDX-License-Identifier: Apache-2.0
"""References (`jax.new_ref`): what is read depends on what was written last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from numcheck_jax.interpreter.graph import Node
from numcheck_jax.interpreter.rules.leaf import rebind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend.core import ClosedJaxpr, JaxprEqn

    from numcheck_jax.interpreter.cell import Cell, Frame
    from numcheck_jax.interpreter.tape import Tape

__all__ = ["fresh_references", "read", "write"]


def fresh_references(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Return the arguments with references replaced by copies that may be written."""

    def fresh(var: Any, value: Any) -> Any:
        if not hasattr(var.aval, "inner_aval"):
            return value
        held = value[...] if hasattr(jax.typeof(value), "inner_aval") else value
        return jax.new_ref(jnp.array(held))

    return [fresh(v, x) for v, x in zip(closed.jaxpr.invars, args, strict=True)]


def read(
    tape: Tape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Read from a reference."""
    ref, *rest = operands
    values = rebind(eqn, [c.value for c in operands])
    shadows = [tape.lifted(value) for value in values]
    return tape.note(eqn, [tape.latest(ref), *rest], values, frame, shadows)


def write(
    tape: Tape, eqn: JaxprEqn, operands: Sequence[Cell], frame: Frame
) -> list[Cell]:
    """Write to a reference; `swap` also gives what it held before."""
    ref, value, *rest = operands
    before = tape.latest(ref)
    values = rebind(eqn, [c.value for c in operands])
    shadows = [tape.lifted(old) for old in values]
    cells = tape.note(eqn, [before, *rest], values, frame, shadows)
    parents = tuple(c.node for c in (before, value) if c.node is not None)
    node = tape.graph.add(Node(parents, frame.place, is_through=True))
    tape.written(ref, node)
    return cells
