# SPDX-License-Identifier: Apache-2.0
"""The failing step, ready to be run again: as it was, or with one thing changed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal

import torch

from numcheck.diagnose.laboratory import CannotRunError, Outcome
from numcheck.record.notice import notice
from numcheck.record.trace import TraceBuilder
from numcheck_torch.batch import Batch
from numcheck_torch.boundary import BOUNDARY
from numcheck_torch.buffers import BufferMarks
from numcheck_torch.distributed import why_not_replayed
from numcheck_torch.npu import overflow_flag
from numcheck_torch.replay import Runner, uncompiled, undisturbed
from numcheck_torch.sentinel import look
from numcheck_torch.statistics import WITHOUT_FLOAT64, summarize
from numcheck_torch.update import clipped, finite, rehearse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Role, Site
    from numcheck.record.trace import Trace
    from numcheck_torch.compiled_parts import CompiledParts
    from numcheck_torch.program import Program
    from numcheck_torch.recorder import Recorder
    from numcheck_torch.replay import Outcomes

__all__ = ["TorchLaboratory"]

_WIDER = {
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


class TorchLaboratory:
    """What `numcheck.diagnose.laboratory.Laboratory` asks for.

    Args:
        model: the watched module.
        program: what the step did up to its update.
        step: its number.
        asleep: context in which the hooks of the monitor do nothing.
        optimizers: those whose update belongs to the step; empty to leave it out.
        initial: copies of the parameters at the first watched step, where kept.
        scale: the gradient scaler's scale, where there is one.
        unscaled: run everything with a loss scale of 1 in its place.
        repaired: parameters that are bad by now, though they were not when the step
            ran: to stand at their first values where these are kept, else at zero.
        meta: written into every trace.
    """

    def __init__(  # noqa: PLR0913 - all but three by keyword
        self,
        model: torch.nn.Module,
        program: Program,
        step: int,
        *,
        asleep: Callable[[], contextlib.AbstractContextManager[None]],
        optimizers: Sequence[torch.optim.Optimizer] = (),
        initial: Mapping[str, torch.Tensor] | None = None,
        scale: torch.Tensor | None = None,
        unscaled: bool = False,
        repaired: Sequence[str] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.program = program
        self.step = step
        self.outcomes: Outcomes | None = None
        self._asleep = asleep
        self._optimizers = optimizers
        self._initial = initial
        self._scale = scale
        if scale is not None:
            program.unscale(scale)
        self.unscaled = unscaled
        self._repaired = tuple(repaired)
        self._meta = dict(meta or {})
        self._overflowed = False
        self._clipped_to: float | None = None
        self._checked: dict[str, Summary] = {}
        self._form: Callable[[torch.nn.Module], torch.nn.Module] | None = None
        self._batch = Batch(model, program)

    def replay(self) -> Trace:
        """Run the step unchanged with every operator recorded and fully measured."""
        from numcheck_torch.recorder import Recorder

        builder = TraceBuilder(self.step)
        recorder = Recorder(builder, modules=self.model, measure="full", exponents=True)
        self._record(recorder)
        return builder.build(**self._meta)

    def as_compiled(self, parts: CompiledParts) -> Trace:
        """Run the step unchanged as its compiled form runs it, its graphs observed."""
        from numcheck_torch.recorder import Recorder

        builder = TraceBuilder(self.step)
        self._form = parts.called
        try:
            with parts.observed() as observer:
                recorder = Recorder(builder, modules=self.model, compiled=observer)
                self._record(recorder)
        finally:
            self._form = None
        return builder.build(**self._meta)

    def beside_float32(self) -> tuple[Trace, Mapping[int, float]]:
        """Run the step and its float32 lift side by side."""
        from numcheck_torch.recorder import Recorder

        builder = TraceBuilder(self.step)
        recorder = Recorder(
            builder,
            modules=self.model,
            measure="full",
            exponents=True,
            shadow="float32",
        )
        self._record(recorder)
        return builder.build(**self._meta), recorder.departures

    def in_format(
        self, name: Literal["same", "bfloat16", "float32", "float64"]
    ) -> Outcome:
        """Run the step with its lower-precision dtypes lifted to the named format."""
        from numcheck_torch.lift import Lift, lifted_parameters

        if name == "same":
            return self._same()
        dtype = _WIDER[name]
        parameter = next(self.model.parameters(), None)
        where = "cpu" if parameter is None else parameter.device.type
        if name == "float64" and where in WITHOUT_FLOAT64:
            raise CannotRunError(notice("refusal.no_float64", device=where))
        widened, ready = self._batch.lifted(dtype), self._ready()
        with ready, lifted_parameters(self.model, dtype) as standing, Lift(dtype):

            def change(tensor: torch.Tensor) -> torch.Tensor:
                known = standing.get(id(tensor))
                return widened(tensor) if known is None else known

            found = self._run(change)
        return self._outcome(found)

    def rows(self) -> int | None:
        """Return the number of samples in the batch; None when it has no batch axis."""
        return self._batch.rows

    def on_rows(self, rows: Sequence[int]) -> Outcome:
        """Run the step on the given samples only, repeated to fill the batch.

        The batch keeps its size, so that shapes written into the loss still fit.
        """
        with self._ready():
            change = self._batch.only(rows)
            found = self._run(change)
        return self._outcome(found)

    def batch(self) -> dict[str, Any]:
        """Return the batch and its targets on the host, by the names of their sites."""
        self.program.ensure_runnable()
        return self._batch.arrays()

    def at_initial_parameters(self) -> Outcome:
        """Run the step with the parameters of the first watched step."""
        if self._initial is None:
            raise CannotRunError("refusal.first_parameters_large")
        with self._ready(), self._swapped(self._initial):
            found = self._run()
        return self._outcome(found)

    def with_loss_scale(self, factor: float, scale: float) -> Outcome:
        """Run the step with another number where it multiplies the loss by `factor`."""
        from numcheck_torch.factors import OtherFactor

        with self._ready(), OtherFactor(factor, scale) as other:
            found = self._run()
        if not other.met:
            raise CannotRunError(notice("refusal.loss_not_scaled", factor=factor))
        return self._outcome(found)

    def with_clipping(self, limit: float | None) -> Outcome:
        """Run the step and its update on gradients clipped to a global norm."""
        from numcheck_torch.recorder import Recorder

        if not self._optimizers:
            raise CannotRunError("refusal.no_update")
        builder = TraceBuilder(self.step)
        self._clipped_to = limit
        try:
            self._record(Recorder(builder, modules=self.model, measure="full"))
        finally:
            self._clipped_to = None
        view = builder.build().at(self.step)
        held = {site.op: view.summary(site) for site in view.kept()}
        return Outcome({op: s for op, s in held.items() if s is not None})

    def operator_wider(
        self, trace: Trace, site: Site, name: Literal["float32", "float64"]
    ) -> Outcome:
        """Run one operator alone in a wider format, with the operands it had."""
        from numcheck_torch.one_operator import Alone, wider

        with self._ready(), Alone(trace, site, wider(_WIDER[name])) as beside:
            self._run()
        recorded = trace.at(*next(iter(trace.summaries))).summary(site)
        return Outcome({"result": beside.outcome(recorded)})

    def operator_on_cpu(self, trace: Trace, site: Site) -> Outcome:
        """Run one operator alone on the CPU, with the operands it had in the step."""
        from numcheck_torch.one_operator import Alone, on_cpu

        self._device()
        with self._ready(), Alone(trace, site, on_cpu) as beside:
            self._run()
        kept = {"result": beside.outcome(None)}
        if beside.operands is not None:
            kept["operands"] = beside.operands
        return Outcome(kept)

    def one_by_one(self) -> Outcome:
        """Run the step, waiting for the device after each operator."""
        from numcheck_torch.one_operator import OneByOne

        with self._ready(), OneByOne(self._device()):
            found = self._run()
        return self._outcome(found)

    def _device(self) -> torch.device:
        """Return the accelerator that the model is on."""
        parameter = next(self.model.parameters(), None)
        if parameter is None or parameter.device.type == "cpu":
            raise CannotRunError("refusal.on_cpu")
        return parameter.device

    def is_healthy(self) -> bool:
        """Run the step, and say whether its loss and gradients are finite."""
        with self._ready():
            found = self._run()
        is_bad = [s.is_finite is False for s in self._checked.values()]
        if self._overflowed or any(is_bad):
            return False
        named = [*enumerate(found.gradients.values()), *enumerate(found.losses)]
        return look([(str(i), t) for i, t in named], []).is_healthy

    def _run(
        self,
        change: Callable[[torch.Tensor], torch.Tensor] | None = None,
        keep: Callable[[torch.Tensor, str, Role], object] | None = None,
    ) -> Outcomes:
        self._checked = {}

        def given(tensor: torch.Tensor) -> torch.Tensor:
            if self.unscaled and tensor is self._scale:
                return torch.ones_like(tensor)
            return tensor if change is None else change(tensor)

        checks = BOUNDARY.telling(keep or self._note_check)
        with checks, overflow_flag(self.model) or contextlib.nullcontext() as flag:
            found = Runner(self.model, self.program, given, self._form).run()
        self._overflowed = flag is not None and flag.is_set is True
        return found

    def _outcome(self, found: Outcomes) -> Outcome:
        kept = _kept(found) | self._checked
        return Outcome(kept, overflowed=self._overflowed)

    def _note_check(self, value: torch.Tensor, op: str, _: Role) -> None:
        """Keep what a value checked by hand holds."""
        held = summarize(value)
        known = self._checked.get(op)
        self._checked[op] = held if known is None else known.merge(held)

    def _same(self) -> Outcome:
        """Lift each dtype to itself, and hold the step against its plain replay."""
        from numcheck_torch.lift import Lift

        with self._ready():
            plain = self._run()
        with self._ready(), Lift(None):
            lifted = self._run()
        if not _equal(plain, lifted):
            raise CannotRunError("refusal.lift_unfaithful")
        return self._outcome(lifted)

    @contextlib.contextmanager
    def _ready(self) -> Iterator[None]:
        self.program.ensure_runnable()
        reason = why_not_replayed(self.model)
        if reason is not None:
            raise CannotRunError(reason)
        with (
            self._asleep(),
            BOUNDARY.muted(),
            uncompiled() if self._form is None else contextlib.nullcontext(),
            undisturbed(self.model),
            self._swapped(self._repairs()),
        ):
            yield

    def _repairs(self) -> dict[str, torch.Tensor]:
        """Return what stands in for parameters that an update ruined."""
        named = dict(self.model.named_parameters())
        first = self._initial or {}
        return {n: first.get(n, finite(named[n].detach())) for n in self._repaired}

    @contextlib.contextmanager
    def _swapped(self, values: Mapping[str, torch.Tensor]) -> Iterator[None]:
        """Run a block with other values in the parameters."""
        named = [(n, p) for n, p in self.model.named_parameters() if n in values]
        before = [p.data for _, p in named]
        try:
            for name, parameter in named:
                parameter.data = values[name].to(parameter.device, copy=True)
            yield
        finally:
            for (_, parameter), data in zip(named, before, strict=True):
                parameter.data = data

    def _record(self, recorder: Recorder) -> None:
        with self._ready(), recorder:
            self._batch.name_sources(recorder)
            before = BufferMarks.of(self.model)
            for forward in self.program.forwards:
                for name, copied in forward.buffers.named(self.model):
                    recorder.expect(copied, f"buffer:{name}", "buffer")
            found = self._run(keep=recorder.keep)
            self.outcomes = found
            for loss in found.losses:
                recorder.keep(loss, "loss", "loss")
            for name, output in found.outputs:
                recorder.keep(output, _output_name(name), "output")
            for name, gradient in found.gradients.items():
                recorder.keep(gradient, f"gradient:{name}", "gradient")
            for name, buffer in before.written(self.model):
                recorder.keep(buffer, f"buffer:{name}", "buffer")
            gradients = found.gradients
            if self._clipped_to is not None:
                gradients = clipped(gradients, self._clipped_to)
            for optimizer in self._optimizers:
                rehearse(
                    optimizer,
                    self.model,
                    gradients,
                    recorder,
                    repaired=bool(self._repaired),
                )
        recorder.finish()


def _kept(found: Outcomes) -> dict[str, Summary]:
    """Return what a run's kept values held, named as in its trace."""
    named = [(f"gradient:{n}", g) for n, g in found.gradients.items()]
    named += [("loss", loss) for loss in found.losses]
    named += [(_output_name(n), output) for n, output in found.outputs]
    kept: dict[str, Summary] = {}
    for name, tensor in named:
        held = summarize(tensor)
        kept[name] = kept[name].merge(held) if name in kept else held
    return kept


def _output_name(path: str) -> str:
    return f"output:{path}" if path else "output"


def _equal(a: Outcomes, b: Outcomes) -> bool:
    if a.gradients.keys() != b.gradients.keys() or len(a.losses) != len(b.losses):
        return False
    pairs = [(a.gradients[n], b.gradients[n]) for n in a.gradients]
    pairs += list(zip(a.losses, b.losses, strict=True))
    return all(
        x.dtype == y.dtype and torch.equal(x.nan_to_num(), y.nan_to_num())
        for x, y in pairs
    )
