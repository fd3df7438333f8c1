# SPDX-License-Identifier: Apache-2.0
"""The failing step, ready to be run again: as it was, or with one thing changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.utils._python_dispatch import _disable_current_modes

from numcheck.diagnose.laboratory import CannotRunError, Outcome
from numcheck.record.notice import notice
from numcheck.record.trace import TraceBuilder
from numcheck_torch.distributed.sharding import is_spread
from numcheck_torch.kept import are_equal
from numcheck_torch.repeated_step import RepeatedStep, with_company
from numcheck_torch.sentinel import look
from numcheck_torch.statistics import WITHOUT_FLOAT64

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.record.site import Role, Site
    from numcheck.record.trace import Trace
    from numcheck_torch.compiled_parts import CompiledParts

__all__ = ["TorchLaboratory"]

_WIDER = {
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


class TorchLaboratory(RepeatedStep):
    """What `numcheck.diagnose.laboratory.Laboratory` asks for."""

    @with_company()
    def replay(self) -> Trace:
        """Run the step unchanged with every operator recorded and fully measured."""
        from numcheck_torch.recorder import Recorder

        builder = TraceBuilder(self.step)
        recorder = Recorder(builder, modules=self.model, measure="full", exponents=True)
        self._record(recorder)
        return builder.build(**self._meta)

    def until_error(self, kind: type[Exception]) -> Trace | None:
        """Run the step up to the error that its last call ends in.

        Args:
            kind: of which class that error is.

        Returns:
            Its trace, where the value that the error is about is not finite.
        """
        from numcheck_torch.last_values import LastValues
        from numcheck_torch.recorder import Recorder

        builder = TraceBuilder(self.step)
        recorder = Recorder(builder, modules=self.model, measure="full", exponents=True)
        blamed: torch.Tensor | None = None
        with self._ready(), recorder:
            self._batch.name_sources(recorder)
            values = LastValues()
            try:
                with values:
                    self._run()
            except kind as error:
                with _disable_current_modes():
                    blamed = values.blamed(error)
            if blamed is not None:
                has_nan = bool(blamed.isnan().any())
                # What was only moved is no harm where it is an output.
                role: Role = "checked" if has_nan else "output"
                recorder.keep(blamed, f"output:{kind.__name__}", role)
        recorder.finish()
        return None if blamed is None else builder.build(**self._meta)

    def as_compiled(self, parts: CompiledParts) -> Trace:
        """Run the step unchanged as its compiled form runs it, its graphs observed."""
        from numcheck_torch.recorder import Recorder

        if self.speaks:
            # Nothing stops a compiled graph before its collectives.
            raise CannotRunError("refusal.speaks")
        builder = TraceBuilder(self.step)
        self._form = parts.called
        try:
            with parts.observed() as observer:
                recorder = Recorder(builder, modules=self.model, compiled=observer)
                self._record(recorder)
        finally:
            self._form = None
        return builder.build(**self._meta)

    @with_company()
    def beside_float32(self) -> tuple[Trace, Mapping[int, float]]:
        """Run the step and its float32 lift side by side."""
        if is_spread(self.model):
            raise CannotRunError("refusal.sharded")
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

    @with_company()
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

    @with_company()
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

    @with_company()
    def at_initial_parameters(self) -> Outcome:
        """Run the step with the parameters of the first watched step."""
        if self._initial is None:
            raise CannotRunError("refusal.first_parameters_large")
        with self._ready(), self._swapped(self._first()):
            found = self._run()
        return self._outcome(found)

    @with_company()
    def with_loss_scale(self, factor: float, scale: float) -> Outcome:
        """Run the step with another number where it multiplies the loss by `factor`."""
        from numcheck_torch.factors import OtherFactor

        with self._ready(), OtherFactor(factor, scale) as other:
            found = self._run()
        if not other.met:
            raise CannotRunError(notice("refusal.loss_not_scaled", factor=factor))
        return self._outcome(found)

    @with_company("is_healthy")
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

    @with_company("is_healthy")
    def operator_wider(
        self, trace: Trace, site: Site, name: Literal["float32", "float64"]
    ) -> Outcome:
        """Run one operator alone in a wider format, with the operands it had."""
        from numcheck_torch.one_operator import Alone, wider

        with self._ready(), Alone(trace, site, wider(_WIDER[name])) as beside:
            self._run()
        recorded = trace.at(*next(iter(trace.summaries))).summary(site)
        return Outcome({"result": beside.outcome(recorded)})

    @with_company("is_healthy")
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

    @with_company("is_healthy")
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

    @with_company()
    def is_healthy(self) -> bool:
        """Run the step, and say whether its loss and gradients are finite."""
        with self._ready():
            found = self._run()
        is_bad = [s.is_finite is False for s in self._checked.values()]
        if self._overflowed or any(is_bad):
            return False
        named = [*enumerate(found.gradients.values()), *enumerate(found.losses)]
        return look([(str(i), t) for i, t in named], []).is_healthy

    def _same(self) -> Outcome:
        """Lift each dtype to itself, and hold the step against its plain replay."""
        from numcheck_torch.lift import Lift

        with self._ready():
            plain = self._run()
        with self._ready(), Lift(None):
            lifted = self._run()
        if not are_equal(plain, lifted):
            raise CannotRunError("refusal.lift_unfaithful")
        return self._outcome(lifted)
