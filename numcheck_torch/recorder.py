# SPDX-License-Identifier: Apache-2.0
"""Records every operator of a step as a `Site`, with its data flow and its values.

PyTorch calls a dispatch mode for every operator below autograd: of the forward, the
loss, the backward, a checkpoint's recomputation and the optimizer. What the mode
returns is what the operator returned; nothing of the step's own results changes.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from numcheck.errors import ArgumentError
from numcheck.record.site import Site
from numcheck_torch.autograd_nodes import ForwardIndex, autograd_phase, is_in_engine
from numcheck_torch.dataflow import Memory, Stale
from numcheck_torch.dtypes import format_name
from numcheck_torch.meters import ExtremesMeter, FullMeter
from numcheck_torch.operators import describe
from numcheck_torch.scope import ModuleStack
from numcheck_torch.source import user_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import nn
    from torch._ops import OpOverload

    from numcheck.record.site import Effect, Phase, Role, SourceLine
    from numcheck.record.trace import TraceBuilder
    from numcheck_torch.meters import Meter
    from numcheck_torch.operators import Operator

__all__ = ["Recorder"]

_PLAIN: Final = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})
_KEPT_IN: Final[dict[Role, Phase]] = {
    "loss": "forward",
    "output": "forward",
    "gradient": "backward",
    "parameter": "optimizer",
    "state": "optimizer",
}


class Recorder:
    """Records what runs inside it, as a context manager.

    Args:
        builder: receives the sites as they come, and the summaries at `finish`.
        modules: module tree whose parameters, buffers and submodules name things.
        measure: ``full`` counts and sums every value; ``extremes`` takes the smallest
            and the largest, cheaply enough for every step.
        exponents: with ``full``, also count values by binade.
        call_line: the user's line that stands for operators which numcheck itself
            calls for again, when no line of the user's own is below it.

    Attributes:
        failure: an error inside the recorder; recording stopped there and `finish`
            raises it. The recorded program went on.

    Example:
        >>> from numcheck.record import TraceBuilder
        >>> builder = TraceBuilder(step=0)
        >>> with Recorder(builder) as recorder:
        ...     y = torch.log(torch.zeros(2))
        ...     recorder.keep(y, "output:y", "output")
        >>> recorder.finish()
        >>> [s.op for s in builder.sites]
        ['aten.zeros.default', 'aten.log.default', 'output:y']
        >>> builder.summaries[1].neg_inf
        2
    """

    def __init__(
        self,
        builder: TraceBuilder,
        *,
        modules: nn.Module | None = None,
        measure: Literal["full", "extremes"] = "full",
        exponents: bool = False,
        call_line: SourceLine | None = None,
    ) -> None:
        if measure not in ("full", "extremes"):
            raise ArgumentError(
                f"measure must be 'full' or 'extremes'; got {measure!r}"
            )
        self.builder = builder
        self.failure: Exception | None = None
        self._meter: Meter = (
            FullMeter(exponents=exponents) if measure == "full" else ExtremesMeter()
        )
        self._memory = Memory()
        self._scopes = ModuleStack(modules)
        self._nodes = ForwardIndex()
        self._mode = _Mode(self)
        self._same: dict[int, int] = {}
        self._phase: Phase = "forward"
        self._call_line = call_line
        self._line: SourceLine | None = None
        if modules is not None:
            self._expect_state(modules)

    def __enter__(self) -> Self:
        """Start recording."""
        self._scopes.__enter__()
        self._mode.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop recording; what was recorded stays until `finish`."""
        self._mode.__exit__(*exception)  # type: ignore[arg-type]
        self._scopes.__exit__(*exception)

    def source(self, tensor: torch.Tensor, op: str, role: Role) -> int:
        """Add a value the step is given, and return its site.

        Args:
            tensor: the value as it is now.
            op: ``input:NAME``, ``target:NAME``, ``parameter:NAME``, ``state:NAME``…
            role: what it is to the user.
        """
        with _disable_current_modes():
            return self._source(local(tensor), op, role)

    def expect(self, tensor: torch.Tensor, op: str, role: Role) -> None:
        """Name a value that becomes a source only if something reads it."""
        self._memory.expect(local(tensor), op, role)

    def keep(self, tensor: torch.Tensor, op: str, role: Role) -> int:
        """Add a value the step hands back, and return its site.

        Args:
            tensor: the value as it is now.
            op: ``loss``, ``output:NAME``, ``gradient:NAME``, ``parameter:NAME``…
            role: what it is to the user.
        """
        with _disable_current_modes():
            value = local(tensor)
            parent = self._site_of(value)
            phase = _KEPT_IN.get(role, self._phase)
            site = self._site(
                op, value, kind="kept", role=role, parents=(parent,), phase=phase
            )
            index = self.builder.add(site)
            self._same[index] = parent
            return index

    @contextlib.contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Say which phase the operators of the block belong to (``optimizer``)."""
        before, self._phase = self._phase, phase
        try:
            yield
        finally:
            self._phase = before

    @contextlib.contextmanager
    def located(
        self, line: SourceLine | None, scope: str = "", scope_type: str = ""
    ) -> Iterator[None]:
        """Say where the operators of the block come from, when they are re-run."""
        before, self._line = self._line, line
        self._scopes.push(scope, scope_type)
        try:
            yield
        finally:
            self._scopes.pop()
            self._line = before

    def finish(self) -> None:
        """Read what was measured, in one transfer, into the builder.

        Raises:
            Exception: recording failed on the way; see `failure`.
        """
        if self.failure is not None:
            raise self.failure
        with _disable_current_modes():
            found = self._meter.read()
        for index in range(len(self.builder.sites)):
            summary = found.get(self._same.get(index, index))
            if summary is not None:
                found[index] = summary
                self.builder.measure(index, summary)

    # --- one operator ---

    def record(
        self,
        overload: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run an operator and record it."""
        operator = describe(overload)
        if operator.is_silent or self.failure is not None:
            return overload(*args, **kwargs)
        operands = self._attempt(self._operands, operator, args, kwargs)
        result = overload(*args, **kwargs)
        if operands is not None:
            self._attempt(self._outcome, operator, args, kwargs, operands, result)
        return result

    def _attempt(self, part: Any, *arguments: Any) -> Any:
        """Run a part of the recorder; its failure must not become the program's."""
        if self.failure is not None:
            return None
        try:
            with _disable_current_modes():
                return part(*arguments)
        except Exception as error:  # noqa: BLE001 - kept, and raised by `finish`
            self.failure = error
            return None

    def _operands(
        self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[list[int]]:
        """Return the sites of each array argument, before the operator runs."""
        found: list[list[int]] = []
        for name, value in operator.operands(args, kwargs):
            if name not in operator.discarded:
                tensors = _tensors(value)
                if tensors:
                    found.append([self._site_of(t) for t in tensors])
        return found

    def _outcome(
        self,
        operator: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        operands: list[list[int]],
        result: Any,
    ) -> None:
        written = operator.writes(args, kwargs)
        fresh = [
            (i, t)
            for i, t in enumerate(_outputs(result))
            if t is not None and not any(t is w for w in written)
        ]
        offset = 1 + max((i for i, _ in fresh), default=-1)
        flat = [site for sites in operands for site in sites]
        common = self._common(operator, args, kwargs, flat)
        first = len(self.builder.sites)
        for i, tensor in fresh:
            self._output(operator, common, operands, i, tensor, is_write=False)
        for i, tensor in enumerate(written):
            self._output(operator, common, operands, offset + i, tensor, is_write=True)
        if common["phase"] in ("forward", "recompute") and (
            len(self.builder.sites) > first
        ):
            self._nodes.note(first)

    def _output(
        self,
        operator: Operator,
        common: dict[str, Any],
        operands: list[list[int]],
        output: int,
        tensor: torch.Tensor,
        *,
        is_write: bool,
    ) -> None:
        parents = _parents(operator, operands, output)
        effect = self._effect(operator, tensor, parents)
        site = self._site(
            operator.name, tensor, output=output, parents=parents, effect=effect,
            family="cast" if effect == "cast" else operator.family, **common,
        )  # fmt: skip
        index = self.builder.add(site)
        self._memory.set(tensor, index, is_write=is_write)
        if effect == "uninitialised":
            return
        if effect == "move" and self._is_same(site, parents):
            self._same[index] = self._same.get(parents[0], parents[0])
        else:
            self._meter.take(index, tensor)

    def _effect(
        self, operator: Operator, tensor: torch.Tensor, parents: Sequence[int]
    ) -> Effect:
        """Return the effect; a move that changes the dtype is a cast."""
        if operator.effect not in ("move", "cast") or not parents:
            return operator.effect
        before = self.builder.sites[parents[0]].dtype
        if before != format_name(tensor.dtype) and tensor.dtype.is_floating_point:
            return "cast" if len(parents) == 1 else operator.effect
        return "move"

    def _is_same(self, site: Site, parents: Sequence[int]) -> bool:
        """Whether a move kept exactly its one operand's elements."""
        if len(parents) != 1:
            return False
        parent = self.builder.sites[parents[0]]
        return parent.dtype == site.dtype and (
            parent.shape == site.shape or _size(parent.shape) == _size(site.shape)
        )

    def _current_phase(self) -> Phase:
        in_module = self._scopes.top[1] != ""
        phase = autograd_phase(in_module=in_module)
        if phase is not None:
            return phase
        # An optimizer's closure runs the model again.
        return "forward" if in_module and self._phase == "optimizer" else self._phase

    def _common(
        self,
        operator: Operator,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        operands: list[int],
    ) -> dict[str, Any]:
        """Return the fields that all outputs of one call share."""
        phase = self._current_phase()
        scope, scope_type = self._scopes.top
        line = self._line or user_line(
            1, self._call_line, in_engine=phase == "backward"
        )
        detail = operator.scalars(args, kwargs)
        if phase == "backward" and is_in_engine():
            at = self._nodes.current()
            origin = at if at is not None else next(iter(operands), None)
            if origin is not None:
                forward = self.builder.sites[origin]
                scope, scope_type = forward.scope, forward.scope_type
                line = line or forward.source
            if at is not None:
                detail = (*detail, ("forward_op", self.builder.sites[at].op))
        return {
            "phase": phase,
            "scope": scope,
            "scope_type": scope_type,
            "source": line,
            "literals": operator.literals(args, kwargs),
            "detail": detail,
        }

    # --- values ---

    def _site(self, op: str, tensor: torch.Tensor, **fields: Any) -> Site:
        fields.setdefault("phase", self._phase)
        return Site(
            index=-1,
            op=op,
            dtype=format_name(tensor.dtype),
            shape=tuple(tensor.shape),
            effect=fields.pop("effect", "move"),
            **fields,
        )

    def _site_of(self, tensor: torch.Tensor) -> int:
        """Return the site of a tensor's value, making one where there is none."""
        found = self._memory.find(tensor)
        if isinstance(found, int):
            return found
        if isinstance(found, Stale):
            return self._assembled(tensor, found)
        op, role = self._memory.expected(tensor) or ("constant", "constant")
        return self._source(tensor, op, role)

    def _source(self, tensor: torch.Tensor, op: str, role: Role) -> int:
        phase: Phase = "data" if role in ("input", "target") else self._phase
        site = self._site(op, tensor, kind="source", role=role, phase=phase)
        index = self.builder.add(site)
        self._memory.set(tensor, index, is_write=False)
        self._meter.take(index, tensor)
        return index

    def _assembled(self, tensor: torch.Tensor, stale: Stale) -> int:
        """Add the value of memory that was changed through other views of it."""
        last = self.builder.sites[stale.sites[-1]]
        site = self._site(
            "view", tensor, parents=stale.sites, phase=last.phase, scope=last.scope,
            scope_type=last.scope_type, source=last.source,
        )  # fmt: skip
        index = self.builder.add(site)
        self._memory.set(tensor, index, is_write=False)
        self._meter.take(index, tensor)
        return index

    def _expect_state(self, modules: nn.Module) -> None:
        for name, parameter in modules.named_parameters():
            self.expect(parameter, f"parameter:{name}", "parameter")
        for name, buffer in modules.named_buffers():
            self.expect(buffer, f"buffer:{name}", "buffer")


class _Mode(TorchDispatchMode):
    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        # Wrapper subclasses (DTensor…) unwrap themselves first; their local
        # operators come here again.
        if any(t not in _PLAIN for t in types):
            return NotImplemented
        return self._recorder.record(func, args, kwargs or {})


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a distributed tensor that this process holds."""
    part: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return part


def _parents(
    operator: Operator, operands: list[list[int]], output: int
) -> tuple[int, ...]:
    """Return the sites an output depends on; lists of foreach operators go in step."""
    if not operator.is_foreach:
        return tuple(site for sites in operands for site in sites)
    width = max((len(sites) for sites in operands), default=0)
    return tuple(
        sites[output % width] if len(sites) == width else sites[0] for sites in operands
    )


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [v for v in value if isinstance(v, torch.Tensor)]
    return []


def _outputs(result: Any) -> list[torch.Tensor | None]:
    if isinstance(result, torch.Tensor):
        return [result]
    if not isinstance(result, list | tuple):
        return []
    flat: list[torch.Tensor | None] = []
    for value in result:
        if isinstance(value, list | tuple):
            flat.extend(_tensors(value))
        else:
            flat.append(value if isinstance(value, torch.Tensor) else None)
    return flat


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size
