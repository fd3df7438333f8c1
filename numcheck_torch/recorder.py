# SPDX-License-Identifier: Apache-2.0
"""Records every operator of a step as a `Site`, with its data flow and its values.

PyTorch calls a dispatch mode for every operator below autograd: of the forward, the
loss, the backward, a checkpoint's recomputation and the optimizer. What the mode
returns is what the operator returned; nothing of the step's own results changes.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import torch
from torch.utils._python_dispatch import _disable_current_modes

from numcheck.errors import ArgumentError
from numcheck_torch import modes
from numcheck_torch.anchors import Anchors, is_anchor
from numcheck_torch.calls import Call, Surroundings, outputs_of, returned
from numcheck_torch.dispatch import LiveMode, Mode
from numcheck_torch.graph_runs import GraphRuns
from numcheck_torch.higher_order import run_inside
from numcheck_torch.layers import Layers
from numcheck_torch.meters import ExtremesMeter, FullMeter
from numcheck_torch.npu import lens
from numcheck_torch.operators import describe
from numcheck_torch.rehearsal import Rehearsal
from numcheck_torch.shadow import Shadow
from numcheck_torch.site_log import SiteLog
from numcheck_torch.state import local, named_state
from numcheck_torch.transforms import transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torch import nn
    from torch._ops import OpOverload

    from numcheck.record.site import Phase, Role, SourceLine
    from numcheck.record.trace import TraceBuilder
    from numcheck_torch.compile.observer import Observer
    from numcheck_torch.script import Entry

__all__ = ["Recorder"]

_SHADOWS: Final = {"float32": torch.float32, "float64": torch.float64}


class Recorder:
    """Records what runs inside it, as a context manager.

    Args:
        builder: receives the sites as they come, and the summaries at `finish`.
        modules: module tree whose parameters, buffers and submodules name things.
        measure: ``full`` counts and sums every value; ``extremes`` takes the smallest
            and the largest, cheaply enough for every step.
        exponents: with ``full``, also count values by binade.
        shadow: wider format of a twin that runs in step with the program, see
            `numcheck_torch.shadow`; None for none.
        compiled: observer of the program's compiled parts, see
            `numcheck_torch.compile`; they stay compiled and are recorded by what
            their graphs return. Without one, a full recording runs them operator by
            operator, and one of extremes leaves them as they are, unrecorded.
        call_line: the user's line that stands for operators which numcheck itself
            calls for again, when no line of the user's own is below it.
        anchors: record nothing but what `numcheck_torch.anchors` names.

    Attributes:
        departures: after `finish`, with a shadow: relative L2 error of each site's
            value against the shadow's.
        fallen_back: how often an operator's shadow could not be run, by operator.
        mode: the dispatch mode, for who has to place it among the user's own.
        failure: an error inside the recorder; recording stopped there and `finish`
            raises it. The recorded program went on.

    Example:
        >>> from numcheck.record import TraceBuilder
        >>> builder = TraceBuilder(step=0)
        >>> with Recorder(builder) as recorder:
        ...     y = torch.log(torch.zeros(2))
        ...     site = recorder.keep(y, "output:y", "output")
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
        shadow: Literal["float32", "float64"] | None = None,
        compiled: Observer | None = None,
        call_line: SourceLine | None = None,
        anchors: bool = False,
    ) -> None:
        if measure not in ("full", "extremes"):
            msg = f"measure must be 'full' or 'extremes'; got {measure!r}"
            raise ArgumentError(msg)
        self.builder = builder
        self.failure: Exception | None = None
        self.departures: dict[int, float] = {}
        self.fallen_back: dict[str, int] = {}
        self._shadow = None if shadow is None else Shadow(_SHADOWS[shadow])
        self._meter = (
            FullMeter(exponents=exponents) if measure == "full" else ExtremesMeter()
        )
        self._log = SiteLog(
            builder,
            self._meter,
            None if self._shadow is None else self._shadow.note,
            extremes_only=measure == "extremes" and shadow is None,
        )
        stays_compiled = compiled is not None or measure == "extremes"
        self._around = Surroundings(
            modules,
            call_line,
            compiled=None if compiled is None else compiled.modules,
            stays_compiled=stays_compiled,
        )
        self._lens = lens(modules) if measure == "full" else None
        self.mode: Any = (LiveMode if stays_compiled else Mode)(self._record)
        self._compiled = compiled
        self._rehearsal: Rehearsal | None = None
        # A twin has to see every operator; so have full measurements.
        if measure == "extremes" and shadow is None:
            self._rehearsal = Rehearsal(self._log, self._meter, self._around)
        self._graphs = GraphRuns(
            self._log, self._meter, self._attempt, self._rehearsal, self.mode
        )
        self._modules = None if modules is None else weakref.ref(modules)
        self.anchors = (
            Anchors(self._log, self._meter, self._rehearsal) if anchors else None
        )
        self._layers = self.anchors or Layers(self._log, self._rehearsal)
        has_sums = measure == "full" and not anchors
        self._around.scopes.on_leave = None if has_sums else self._left
        self._expect_state()

    def restart(self, builder: TraceBuilder) -> None:
        """Record the next step into another builder; what is expected is forgotten."""
        self.builder = builder
        self._log.restart(builder)
        self._around.restart()
        if self._rehearsal is not None:
            self._rehearsal.restart()
        self._expect_state()

    def __enter__(self) -> Self:
        """Start recording."""
        self.follow()
        self.mode.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop recording; what was recorded stays until `finish`."""
        self.mode.__exit__(*exception)
        self.unfollow()

    def follow(self) -> None:
        """Start hearing of modules and compiled graphs, for who places `mode`."""
        self._around.scopes.__enter__()
        if self._compiled is not None:
            self._compiled.listener = self._graphs

    def unfollow(self) -> None:
        """Stop hearing of modules and compiled graphs."""
        if self._compiled is not None:
            self._compiled.listener = None
        self._around.scopes.__exit__()

    def source(self, tensor: torch.Tensor, op: str, role: Role) -> int:
        """Add a value the step is given, and return its site.

        Args:
            tensor: the value as it is now.
            op: ``input:NAME``, ``target:NAME``, ``parameter:NAME``, ``state:NAME``…
            role: what it is to the user.
        """
        (site,) = self._values("source", [(tensor, op)], role)
        return site

    def expect(self, tensor: torch.Tensor, op: str, role: Role) -> None:
        """Name a value that becomes a source only if something reads it."""
        self._log.memory.expect(local(tensor), op, role)

    def rename(self, tensor: torch.Tensor, op: str, role: Role) -> None:
        """Name a value that was read already, as a constant."""
        self._log.rename(local(tensor), op, role)

    def keep(self, tensor: torch.Tensor, op: str, role: Role) -> int:
        """Add a value the step hands back, and return its site.

        Its `op` is ``loss``, ``output:NAME``, ``gradient:NAME``, ``parameter:NAME``…
        """
        (site,) = self.keep_all([(tensor, op)], role)
        return site

    def keep_all(
        self, named: Iterable[tuple[torch.Tensor, str]], role: Role
    ) -> list[int]:
        """Add values the step hands back; see `keep`."""
        return self._values("keep", named, role)

    @contextlib.contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Say which phase the operators of the block belong to (``optimizer``)."""
        before, self._log.phase = self._log.phase, phase
        try:
            yield
        finally:
            self._log.phase = before

    def located(
        self, line: SourceLine | None, scope: str = "", scope_type: str = ""
    ) -> contextlib.AbstractContextManager[None]:
        """Say where the operators of the block come from, when they are re-run."""
        return self._around.located(line, scope, scope_type)

    def finish(self) -> None:
        """Read what was measured, in one transfer, into the builder.

        Raises:
            Exception: recording failed on the way; see `failure`.
        """
        if self.failure is not None:
            raise self.failure
        with _disable_current_modes():
            self._log.read()
            if self._rehearsal is not None:
                self._rehearsal.finish()
            if self._shadow is not None:
                self.departures = self._log.spread(self._shadow.departures())
                self.fallen_back = dict(self._shadow.fallen_back)

    def _values(
        self,
        kind: Literal["source", "keep"],
        named: Iterable[tuple[torch.Tensor, str]],
        role: Role,
    ) -> list[int]:
        with modes.none(), torch.no_grad():
            return [self._value(kind, local(t), op, role) for t, op in named]

    def _value(
        self, kind: Literal["source", "keep"], value: torch.Tensor, op: str, role: Role
    ) -> int:
        what, rehearsal, log = (kind, op), self._rehearsal, self._log
        site = None if rehearsal is None else rehearsal.repeat(what, value)
        if site is None:
            first = len(self.builder.sites)
            site = (log.source if kind == "source" else log.keep)(value, op, role)
            if rehearsal is not None:
                rehearsal.note_value(what, first, site, value)
        if role == "gradient":
            log.sum_up(site, value)
        return site

    def _record(
        self, overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run an operator and record it."""
        rehearsal = self._rehearsal
        if rehearsal is not None and self.failure is None:
            entry = rehearsal.foreseen(overload, args, kwargs)
            if entry is not None and not self._graphs.is_paused:
                result = overload(*args, **kwargs)
                self._attempt(self._repeat, rehearsal, entry, args, kwargs, result)
                return result
        operator = describe(overload)
        if operator.is_calling:
            return self._record_calling(Call(overload, operator, args, kwargs))
        is_passed = self.anchors is not None and not is_anchor(operator)
        is_passed |= operator.is_silent or self._graphs.is_paused
        if is_passed or self.failure is not None:
            return overload(*args, **kwargs)
        call = Call(overload, operator, args, kwargs)
        if not self._attempt(self._before, call):
            return overload(*args, **kwargs)
        result = overload(*args, **kwargs)
        self._attempt(self._after, call, result)
        return result

    def _record_calling(self, call: Call) -> Any:
        """Run an operator that calls functions; record what they call, or it."""
        if self.failure is not None or self._graphs.is_paused:
            return call.overload(*call.args, **call.kwargs)
        result = run_inside(self.mode, call.overload, call.args, call.kwargs)
        if self.anchors is None or is_anchor(call.operator):
            self._attempt(self._after_calling, call, result)
        return result

    def _after_calling(self, call: Call, result: Any) -> None:
        if None in [self._log.memory.find(t) for _, t, _ in returned(result)]:
            self._before(call)
            self._after(call, result)

    def _repeat(
        self,
        rehearsal: Rehearsal,
        entry: Entry,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
    ) -> None:
        """Record an operator that the last step called here too, with like operands."""
        if self.anchors is None and rehearsal.complete(entry, None, returned(result)):
            return
        call = Call(entry.what, describe(entry.what), args, kwargs, entry=entry)
        self._after(call, result)

    def _attempt(self, part: Callable[..., None], *arguments: Any) -> bool:
        """Run a part of the recorder; its failure must not become the program's."""
        try:
            # A twin runs modes of its own.
            run = modes.outside if self._rehearsal is None else modes.unseen
            run(part, *arguments)
        except Exception as error:  # noqa: BLE001 - kept, and raised by `finish`
            self.failure = error
            return False
        return True

    def _before(self, call: Call) -> None:
        if self._rehearsal is not None:
            call.entry = self._rehearsal.begin(call)
        if call.entry is None:
            self._find_operands(call)
        if self._lens is not None:
            self._lens.before()

    def _find_operands(self, call: Call) -> None:
        call.first = len(self.builder.sites)
        if self.anchors is not None:
            return
        call.operands = [
            [self._log.site_of(t) for t in tensors] for tensors in call.read_tensors()
        ]
        if self._shadow is not None:
            call.prepared = self._shadow.prepare(call.operator, call.args, call.kwargs)

    def _after(self, call: Call, result: Any) -> None:
        outputs = outputs_of(call, result)
        if self.anchors is not None and outputs:
            self.anchors.measured(len(self.builder.sites), outputs[0][1])
        if self._rehearsal is None:
            self._add(call, outputs)
            return
        if call.entry is not None:
            if self._rehearsal.complete(call.entry, call, outputs):
                return
            self._find_operands(call)
        outcome = self._add(call, outputs)
        self._rehearsal.note(call, call.first, outcome)

    def _add(
        self, call: Call, outputs: list[tuple[int, torch.Tensor, bool]]
    ) -> list[tuple[int, torch.Tensor, bool]]:
        """Add the sites of a call; return (site, tensor, whether it is measured)."""
        fields = self._around.fields(call, self.builder, self._log.phase)
        if self._lens is not None:
            fields["detail"] += self._lens.after(call.operator, call.args, call.kwargs)
        outcome: list[tuple[int, torch.Tensor, bool]] = []
        for output, tensor, is_write in outputs:
            site, is_measured = self._log.output(
                call.operator,
                tensor,
                output=output,
                parents=call.parents(output),
                is_write=is_write,
                **fields,
            )
            if is_measured:
                self._meter.take(site, tensor)
            outcome.append((site, tensor, is_measured))
        if outcome:
            self._around.remember(outcome[0][0], fields["phase"])
        if self._shadow is not None:
            compared = [
                (site if is_measured else -1, tensor, is_write)
                for (site, _, is_measured), (_, tensor, is_write) in zip(
                    outcome, outputs, strict=True
                )
            ]
            self._shadow.follow(call.overload, call.operator, call.prepared, compared)
        return outcome

    def _left(self, scope: tuple[str, str], out: Any) -> None:
        if self.failure is None and transform() is None:
            self._attempt(self._layers.left, scope, out)

    def _expect_state(self) -> None:
        if self._modules is not None and self.anchors is None:
            self._log.memory.expect_later(functools.partial(named_state, self._modules))
