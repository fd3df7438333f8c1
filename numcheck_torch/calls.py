# SPDX-License-Identifier: Apache-2.0
"""One call of an operator: what it reads and makes, and where it was called from."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

from numcheck_torch.autograd_nodes import (
    ForwardIndex,
    autograd_phase,
    current_task,
    is_in_engine,
)
from numcheck_torch.kinds import PLAIN, is_plain
from numcheck_torch.scope import ModuleStack
from numcheck_torch.source import user_line

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    import torch
    from torch import nn
    from torch._ops import OpOverload

    from numcheck.record.site import Phase, SourceLine
    from numcheck.record.trace import TraceBuilder
    from numcheck_torch.operators import Operator
    from numcheck_torch.script import Entry
    from numcheck_torch.shadow import Prepared

__all__ = ["Call", "Surroundings", "outputs_of", "returned"]


@dataclasses.dataclass(slots=True)
class Call:
    """An operator about to run.

    Attributes:
        operands: sites of each array argument, found before it runs.
        prepared: its arguments on the shadow side.
        first: number of sites before it.
        entry: what it was in the last step, where this one goes the same way.
    """

    overload: OpOverload
    operator: Operator
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    operands: list[list[int]] = dataclasses.field(default_factory=list)
    prepared: Prepared | None = None
    first: int = 0
    entry: Entry | None = None

    def read_tensors(self) -> Iterator[list[torch.Tensor]]:
        """Yield the tensors of each array argument whose value plays a part."""
        for name, value in self.operator.operands(self.args, self.kwargs):
            if name not in self.operator.discarded:
                tensors = _tensors(value)
                if tensors:
                    yield tensors

    def parents(self, output: int) -> tuple[int, ...]:
        """Return the sites an output depends on.

        The lists of a foreach operator go in step; what it writes beside them (a flag
        for all of them) depends on every element.
        """
        width = max((len(sites) for sites in self.operands), default=0)
        if not self.operator.is_foreach or self._is_beside_lists(output, width):
            return tuple(site for sites in self.operands for site in sites)
        return tuple(
            sites[output % width] if len(sites) == width else sites[0]
            for sites in self.operands
        )

    def _is_beside_lists(self, output: int, width: int) -> bool:
        written = [
            self.args[position] if position < len(self.args) else self.kwargs.get(name)
            for position, name in self.operator.written
        ]
        lists = sum(isinstance(value, list | tuple) for value in written)
        return bool(written) and output >= lists * width


def outputs_of(call: Call, result: Any) -> list[tuple[int, torch.Tensor, bool]]:
    """Return (output number, tensor, whether it was written in place) of a call.

    What it returns comes first, then the arguments it wrote to.
    """
    written = (
        call.operator.writes(call.args, call.kwargs) if call.operator.written else []
    )
    if not written:
        return returned(result)
    if result is None:
        return [(i, t, True) for i, t in enumerate(written)]
    found = [
        output
        for output in returned(result)
        if not any(output[1] is w for w in written)
    ]
    start = 1 + max((i for i, _, _ in found), default=-1)
    return found + [(start + i, t, True) for i, t in enumerate(written)]


def returned(result: Any) -> list[tuple[int, torch.Tensor, bool]]:
    """Return the outputs of a call that writes to none of its arguments."""
    if _has_own_values(type(result)):
        return [] if result.is_meta else [(0, result, False)]
    flat = enumerate(_flattened(result))
    return [(i, t, False) for i, t in flat if t is not None]


class Surroundings:
    """Where operators are called from: phase, module, the user's line.

    Args:
        modules: names the scopes.
        call_line: see `numcheck_torch.recorder.Recorder`.
        compiled: see `numcheck_torch.scope.ModuleStack`.
        stays_compiled: leave compiled parts alone.

    Attributes:
        line: while not None, the line of every operator.
    """

    def __init__(
        self,
        modules: nn.Module | None = None,
        call_line: SourceLine | None = None,
        *,
        compiled: Container[int] | None = None,
        stays_compiled: bool = False,
    ) -> None:
        self.scopes = ModuleStack(
            modules, compiled=compiled, stays_compiled=stays_compiled
        )
        self.line: SourceLine | None = None
        self._call_line = call_line
        self._forward = ForwardIndex()
        # A step whose update is made in its backward is run again from in there.
        self._outer: int = current_task()

    def restart(self) -> None:
        """Forget the forward operators of the last step."""
        self._forward = ForwardIndex()

    @contextlib.contextmanager
    def located(
        self, line: SourceLine | None, scope: str, scope_type: str
    ) -> Iterator[None]:
        """Say where the operators of the block come from."""
        before, self.line = self.line, line
        self.scopes.push(scope, scope_type)
        try:
            yield
        finally:
            self.scopes.pop()
            self.line = before

    def remember(self, site: int, phase: Phase) -> None:
        """Remember the first site of a call, for its backward operators."""
        if phase in ("forward", "recompute"):
            self._forward.note(site)

    def fields(self, call: Call, builder: TraceBuilder, phase: Phase) -> dict[str, Any]:
        """Return the fields of `Site` that all outputs of one call share.

        Args:
            call: the call that is running.
            builder: holds the sites so far.
            phase: what the phase is when autograd does not know better.
        """
        phase = self._phase(phase)
        scope, scope_type = self.scopes.top
        line = self.line or user_line(1, self._call_line, in_engine=phase == "backward")
        detail = call.operator.scalars(call.args, call.kwargs)
        if phase == "backward" and is_in_engine(self._outer):
            at = self._forward.current()
            nearest = at if at is not None else _first(call.operands)
            if nearest is not None:
                forward = builder.sites[nearest]
                scope, scope_type = forward.scope, forward.scope_type
                line = line or forward.source
            if at is not None:
                detail = (*detail, ("forward_op", builder.sites[at].op))
        return {
            "phase": phase,
            "scope": scope,
            "scope_type": scope_type,
            "source": line,
            "literals": call.operator.literals(call.args, call.kwargs),
            "detail": detail,
        }

    def _phase(self, phase: Phase) -> Phase:
        is_in_module = self.scopes.top[1] != ""
        found = autograd_phase(in_module=is_in_module, outer=self._outer)
        if found is not None:
            return found
        # An optimizer's closure runs the model again.
        return "forward" if is_in_module and phase == "optimizer" else phase


def _first(operands: list[list[int]]) -> int | None:
    return next((site for sites in operands for site in sites), None)


def _tensors(value: Any) -> list[torch.Tensor]:
    values = value if isinstance(value, list | tuple) else (value,)
    return [v for v in values if _has_values(v)]


def _has_values(value: Any) -> bool:
    """Whether it is a tensor that holds something: no meta or fake tensor."""
    return _has_own_values(type(value)) and not value.is_meta


def _has_own_values(kind: type) -> bool:
    return kind in PLAIN or is_plain(kind)


def _flattened(result: Any) -> Iterator[torch.Tensor | None]:
    for value in result if isinstance(result, list | tuple) else (result,):
        if isinstance(value, list | tuple):
            yield from _tensors(value)
        else:
            yield value if _has_values(value) else None
