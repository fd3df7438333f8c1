# SPDX-License-Identifier: Apache-2.0
"""A step that is over, run once more on all ranks it takes, and everything put back."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import torch

from numcheck.diagnose.laboratory import CannotRunError, Outcome
from numcheck_torch.batch import Batch
from numcheck_torch.boundary import BOUNDARY
from numcheck_torch.buffers import BufferMarks
from numcheck_torch.distributed import Company, Request, why_not_replayed
from numcheck_torch.distributed.quiet import SpeaksError
from numcheck_torch.kept import kept_values, output_name
from numcheck_torch.npu import overflow_flag
from numcheck_torch.replay import Runner, uncompiled, undisturbed
from numcheck_torch.statistics import summarize
from numcheck_torch.update import clipped, finite, rehearse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Role
    from numcheck_torch.distributed.gathered import Gathered
    from numcheck_torch.program import Program
    from numcheck_torch.recorder import Recorder
    from numcheck_torch.replay import Outcomes

__all__ = ["RepeatedStep", "with_company"]

P = ParamSpec("P")
S = TypeVar("S", bound="RepeatedStep")
T = TypeVar("T")


def with_company(
    others: str | None = None,
) -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], T]]:
    """Run a method alone or, where it waits for other ranks, together with these.

    Args:
        others: the method that the other ranks run meanwhile; the same when None.
    """

    def decorate(
        method: Callable[Concatenate[S, P], T],
    ) -> Callable[Concatenate[S, P], T]:
        @functools.wraps(method)
        def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            again = functools.partial(method, self, *args, **kwargs)
            try:
                return again()
            except SpeaksError:
                self.speaks = True
                given = args if others is None else ()
                return self.together(others or method.__name__, given, again)

        return run

    return decorate


class RepeatedStep:
    """What a step did, and how it is run again.

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
        company: the ranks that a run may take.

    Attributes:
        speaks: whether a run of it was found to take other ranks.
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
        repaired: Sequence[str] | None = None,
        meta: Mapping[str, Any] | None = None,
        company: Company | None = None,
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
        self.speaks = False
        self._repaired = None if repaired is None else tuple(repaired)
        self._meta = dict(meta or {})
        self._company = company or Company()
        self._gathered: Gathered | None = None
        self._overflowed = False
        self._clipped_to: float | None = None
        self._checked: dict[str, Summary] = {}
        self._form: Callable[[torch.nn.Module], torch.nn.Module] | None = None
        self._batch = Batch(model, program)

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
        kept = kept_values(found) | self._checked
        return Outcome(kept, overflowed=self._overflowed)

    def _note_check(self, value: torch.Tensor, op: str, _: Role) -> None:
        """Keep what a value checked by hand holds."""
        held = summarize(value)
        known = self._checked.get(op)
        self._checked[op] = held if known is None else known.merge(held)

    @contextlib.contextmanager
    def _ready(self) -> Iterator[None]:
        self.program.ensure_runnable()
        reason = why_not_replayed(self.model)
        if reason is not None:
            raise CannotRunError(reason)
        with (
            self._asleep(),
            BOUNDARY.muted(),
            self._company.alone(self.model) as self._gathered,
            uncompiled() if self._form is None else contextlib.nullcontext(),
            undisturbed(self.model),
            self._swapped(self._repairs()),
        ):
            yield

    def together(
        self, what: str, arguments: tuple[Any, ...], own: Callable[[], T]
    ) -> T:
        """Run something on all ranks that train the model.

        Args:
            what: the method that the other ranks run.
            arguments: what they call it with.
            own: what this one runs.

        Raises:
            CannotRunError: not all ranks are there, or one of them cannot.
        """
        request = Request(what, arguments, self._repaired, self.unscaled)
        return self._company.run(request, own)

    def _first(self) -> Mapping[str, torch.Tensor]:
        """Return the parameters of the first watched step, whole where they are now."""
        if self._gathered is not None:
            return self._company.first_values()
        return self._initial or {}

    def _repairs(self) -> dict[str, torch.Tensor]:
        """Return what stands in for parameters that an update ruined."""
        named = dict(self.model.named_parameters())
        first = self._first() if self._repaired and self._initial else {}
        return {
            n: first.get(n, finite(named[n].detach())) for n in self._repaired or ()
        }

    @contextlib.contextmanager
    def _swapped(self, values: Mapping[str, torch.Tensor]) -> Iterator[None]:
        """Run a block with other values in the parameters."""
        named = [(n, p) for n, p in self.model.named_parameters() if n in values]
        before = [_memory(p) for _, p in named]
        try:
            for name, parameter in named:
                other = _memory(values[name]).to(parameter.device, copy=True)
                _give_memory(parameter, other)
            yield
        finally:
            for (_, parameter), data in zip(named, before, strict=True):
                _give_memory(parameter, data)

    def _record(self, recorder: Recorder) -> None:
        with self._ready(), recorder:
            self._batch.name_sources(recorder)
            if self._gathered is not None:
                for name, parameter in self.model.named_parameters():
                    recorder.expect(parameter, f"parameter:{name}", "parameter")
            before = BufferMarks.of(self.model)
            for forward in self.program.forwards:
                for name, copied in forward.buffers.named(self.model):
                    recorder.expect(copied, f"buffer:{name}", "buffer")
            found = self._run(keep=recorder.keep)
            self.outcomes = found
            for loss in found.losses:
                recorder.keep(loss, "loss", "loss")
            for name, output in found.outputs:
                recorder.keep(output, output_name(name), "output")
            for name, gradient in found.gradients.items():
                recorder.keep(gradient, f"gradient:{name}", "gradient")
            for name, buffer in before.written(self.model):
                recorder.keep(buffer, f"buffer:{name}", "buffer")
            self._update(found.gradients, recorder)
        recorder.finish()

    def _update(self, gradients: dict[str, torch.Tensor], recorder: Recorder) -> None:
        """Record the update with the step's gradients, each rank that of its shards."""
        if self._clipped_to is not None:
            gradients = clipped(gradients, self._clipped_to)
        names = {id(p): n for n, p in self.model.named_parameters()}
        instead: dict[str, torch.Tensor] = {}
        if self._gathered is not None:
            gradients = self._gathered.share(gradients)
            names = self._gathered.names
            # What stands for ruined parameters stands for the whole ones.
            first = self._initial or {}
            instead = {n: first[n] for n in self._repaired or () if n in first}
        is_repaired = bool(self._repaired)
        for optimizer in self._optimizers:
            rehearse(
                optimizer,
                names,
                gradients,
                recorder,
                repaired=is_repaired,
                instead=instead,
            )


def _memory(parameter: torch.Tensor) -> torch.Tensor:
    """Return what holds a parameter's values in this process."""
    held: torch.Tensor | None = getattr(parameter, "_local_tensor", None)
    return parameter.data if held is None else held.detach()


def _give_memory(parameter: Any, values: torch.Tensor) -> None:
    if hasattr(parameter, "_local_tensor"):
        parameter._local_tensor = values
    else:
        parameter.data = values
