# SPDX-License-Identifier: Apache-2.0
"""One value at one place of a program: what made it, where, in which phase.

A trace is a list of sites in execution order. Three kinds of site exist:

* ``source``   a value the step was given: batch, label, parameter, buffer, optimizer
  state, constant;
* ``operator`` one output of one operator;
* ``kept``     a value the step hands back to the user: loss, returned output,
  gradient, updated parameter, optimizer state. It holds no arithmetic of its own:
  its `parents` name the site whose value it is.

`parents` are the data-flow edges. They point backwards in execution order.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

__all__ = ["Effect", "Family", "Kind", "Phase", "Role", "Site", "SourceLine"]

Phase = Literal["data", "forward", "backward", "recompute", "optimizer"]
Kind = Literal["source", "operator", "kept"]
Role = Literal[
    "operator",
    "input",
    "target",
    "parameter",
    "buffer",
    "state",
    "constant",
    "loss",
    "output",
    "gradient",
    "checked",
]
Effect = Literal["compute", "move", "fill", "cast", "uninitialised"]
"""What an operator does to values: arithmetic; only moves or selects them; writes a
given constant; rounds them to another dtype; allocates without writing."""

Family = Literal[
    "",
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "square",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "exp",
    "log",
    "trigonometric",
    "inverse_bounded",
    "sigmoid",
    "matmul",
    "conv",
    "sum",
    "mean",
    "product",
    "cumulative",
    "norm",
    "variance",
    "softmax",
    "log_softmax",
    "logsumexp",
    "attention",
    "normalisation",
    "loss",
    "decomposition",
    "solve",
    "select",
    "gather",
    "scatter",
    "compare",
    "cast",
    "fill",
    "random",
    "optimizer",
    "collective",
    "loop",
    "call",
]
"""Framework-neutral kind of an operator, as the rules see it; empty when none fits.
``inverse_bounded`` are functions defined on a bounded set (acos, atanh, erfinv)."""


@dataclasses.dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's program.

    Attributes:
        file: path as the program knows it.
        line: 1-based line number.
        function: qualified name of the enclosing function where known.
        text: the line itself, stripped; empty when it cannot be read.
    """

    file: str
    line: int
    function: str = ""
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """One output of one operator at one place in the program, or a source, or kept.

    Attributes:
        index: position in the trace's list of sites; execution order.
        op: operator as its framework writes it (``aten.log.default``, ``log``); for a
            source ``input:NAME``, ``parameter:NAME``…; for a kept value ``loss``,
            ``gradient:NAME``….
        phase: part of the step it belongs to.
        kind: source, operator or kept.
        role: what the value is to the user.
        effect: what the operator does to values; sources and kept values ``move``.
        output: which of the operator's outputs.
        dtype: name of the value's format, as `numcheck.formats.get` knows it.
        shape: shape of the value.
        scope: path of module names (``decoder.layers.3.mlp``); empty at top level.
        scope_type: class name of the innermost module, where known.
        source: the user's line; for a backward operator its forward operator's line.
        parents: indices of the sites whose values it read, one for each array operand
            in the operator's order (an operand read twice stands twice).
        literals: non-finite constants among the operator's scalar arguments.
        iteration: loop counters from the outermost loop inwards; empty outside loops.
        detail: further facts of the operator, as (name, value): ``dim``, ``eps``,
            scalar operands as ``operand0``…, for backward operators ``forward_op``.
        family: framework-neutral kind of the operator.
    """

    index: int
    op: str
    phase: Phase
    kind: Kind = "operator"
    role: Role = "operator"
    effect: Effect = "compute"
    output: int = 0
    dtype: str = ""
    shape: tuple[int, ...] = ()
    scope: str = ""
    scope_type: str = ""
    source: SourceLine | None = None
    parents: tuple[int, ...] = ()
    literals: tuple[Literal["nan", "+inf", "-inf"], ...] = ()
    iteration: tuple[int, ...] = ()
    detail: tuple[tuple[str, str | float], ...] = ()
    family: Family = ""

    @property
    def name(self) -> str:
        """Short name for people: the module path where there is one, then the op."""
        return f"{self.scope}/{self.op}" if self.scope else self.op
