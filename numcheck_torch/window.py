# SPDX-License-Identifier: Apache-2.0
"""What is kept of the step that runs now: its program, its losses, and the tape."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch import modes, own_functions
from numcheck_torch.buffers import BufferWatch
from numcheck_torch.call_depth import CallDepth
from numcheck_torch.capture import Autocast, Forward, RandomState
from numcheck_torch.events import Gradient, Operation
from numcheck_torch.generators import generators_of
from numcheck_torch.graph import reaches
from numcheck_torch.hidden import HiddenLoss
from numcheck_torch.host_random import HostRandom
from numcheck_torch.loss import LossTape
from numcheck_torch.program import Program
from numcheck_torch.trees import map_tensors, tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType

    from numcheck_torch.engine import EngineRun
    from numcheck_torch.lasting import Lasting
    from numcheck_torch.places import Place

__all__ = ["Window"]


class Window:
    """The present step, from the first call of the module to the update.

    Args:
        fault: see `numcheck_torch.loss.LossTape`.
        owner: likewise.

    Attributes:
        program: what happened so far.
        losses: values of what was differentiated into ``.grad``.
        is_fresh: whether something happened that nobody looked at yet.
    """

    def __init__(
        self, fault: Callable[[str], None], owner: Callable[[], object]
    ) -> None:
        self._own: frozenset[int] = frozenset()
        self.program = Program()
        self.losses: list[torch.Tensor] = []
        self.is_fresh = False
        self._tape = LossTape(self.program, fault, owner)
        self._known: dict[int, tuple[BufferWatch, tuple[torch.Generator, ...]]] = {}
        self._host = HostRandom()
        self._hidden: HiddenLoss | None = None
        self._is_others = False
        self._was_open = False
        self._awaits_engine = False
        self._is_taped = self._was_taped = False
        self._waits_for: object = None
        self._depth = CallDepth()
        self._call: Forward | None = None
        own_functions.listen(self)

    def close(self) -> None:
        """Let go of the step for good."""
        self.forget()
        own_functions.unlisten(self)

    def trains(self, parameters: Iterable[torch.Tensor]) -> None:
        """Learn which parameters the step trains; begins the step anew."""
        self._own = frozenset(map(id, parameters))
        self.forget()
        self._renew()

    @property
    def is_empty(self) -> bool:
        """Whether nothing happened yet in this step."""
        return not self.program.events

    @property
    def candidates(self) -> list[torch.Tensor]:
        """What may be the loss where nothing was differentiated."""
        slot = self.program.pending_loss
        tensor = None if slot is None else self.program.tensor(slot)
        if tensor is None and slot is not None and self.program.last_scalar is not None:
            tensor = self.program.last_scalar[1]
        return [] if tensor is None else [tensor.detach()]

    @property
    def awaits_gradient(self) -> bool:
        """Whether the last call of the module was not differentiated yet."""
        return self.program.awaits_gradient

    def prune(self) -> None:
        """Let go of calls that nothing alive depends on."""
        self.program.prune()

    def enter(self, caller: FrameType) -> bool:
        """Count a call of the module; whether it is an outermost one.

        Args:
            caller: see `CallDepth.enter`.
        """
        if self._depth.enter(caller) > 1:
            return False
        self._was_taped = self.is_open
        self.pause()
        return True

    @property
    def is_outermost(self) -> bool:
        """Whether the call under way is no call inside another one."""
        return self._depth.now == 1

    def begin(
        self,
        subject: Lasting,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        place: Place | None,
    ) -> None:
        """Keep what the call about to be made needs to be made again."""
        model = subject.module
        known = self._known.get(id(model))
        if known is None:
            known = self._known[id(model)] = BufferWatch(), generators_of(model)
        before = known[0].before(model, is_first=not self.program.events)
        kwargs = dict(kwargs)
        if self.program.events:
            args, kwargs = map_tensors((args, kwargs), self.program.reference)
        self._call = Forward.of(subject, args, kwargs, before, place, known[1])
        self._call.host = self._host.before()

    def leave(self, out: object) -> bool:
        """Write the call down when it is over; whether it can be trained on."""
        if self._depth.now == 0:
            return False
        if self._depth.leave() > 0:
            return False
        call, self._call = self._call, None
        returned = [out] if isinstance(out, torch.Tensor) else list(tensors(out))
        if call is None or not any(t.requires_grad for t in returned):
            if self._was_taped:
                # A look aside, as at a teacher: another call's loss is under way.
                self._resume()
            return False
        program = self.program
        call.outputs = tuple(map(program.made, returned))
        self._complete(call)
        program.called(call)
        self.is_fresh = True
        self._resume()
        return True

    def fail(self) -> Forward | None:
        """Count out a call that ended in an error; what it was given, where kept."""
        if self._depth.now == 0 or self._depth.leave() > 0:
            return None
        call, self._call = self._call, None
        if call is not None:
            self._complete(call)
        return call

    def _complete(self, call: Forward) -> None:
        """Note what a call that is over changed."""
        model = call.module
        call.buffers = self._known[id(model)][0].after(model, call.buffers)
        if call.host is not None:
            call.host = self._host.after(call.host)

    def before_backward(self) -> None:
        """Take the tape off; it would see the gradients being made at the loss."""
        if self._is_taped and torch._C._current_graph_task_id() == -1:
            self.pause()
            self._awaits_engine = True

    def before_engine(self, run: EngineRun) -> None:
        """Take the tape off; where it missed the loss, catch the outputs' gradients."""
        # An error on the way to the engine leaves it off; then the loss was missed.
        self._was_open = self._is_taped or self._awaits_engine
        self._awaits_engine = False
        self.pause()
        self._hidden, self._is_others = None, False
        if not self._was_open:
            return
        if self.program.meets_others or not self._is_written(run):
            outputs = self.program.live_outputs()
            if not reaches(run.roots, outputs.values(), self._own):
                self._is_others = True
            elif outputs and not self._is_written(run):
                self._hidden = HiddenLoss(outputs)

    def after_engine(self, run: EngineRun, result: tuple[Any, ...]) -> bool:
        """Write down a run of the engine; False when it was about something else."""
        hidden, self._hidden = self._hidden, None
        if hidden is not None:
            event: Gradient | None = hidden.event(run)
        elif self._is_known(run) and not self._is_others:
            event = self._gradient(run, result)
        else:
            event = None
        if event is not None:
            self.program.append(event)
            if run.accumulates:
                self.losses.extend(event.values)
                self.is_fresh = True
        goes_on = event is None or run.creates or run.retains or not run.accumulates
        if self._was_open and goes_on:
            self._resume()
        return event is not None

    def hand_out(self) -> bool:
        """Take the last run of the engine for one that ends the step."""
        event = self.program.events[-1] if self.program.events else None
        if not isinstance(event, Gradient):
            return False
        ends = dataclasses.replace(event, accumulates=True, outputs=())
        self.program.events[-1] = ends
        self.losses.extend(event.values)
        self.is_fresh = True
        return True

    @property
    def is_taped(self) -> bool:
        """Whether the module was called and its loss is under way, on some thread."""
        return self._is_taped

    @property
    def is_open(self) -> bool:
        """Whether the module was called and its loss is under way, on this thread."""
        return self._is_taped and modes.is_active(self._tape)

    @property
    def is_of_this_thread(self) -> bool:
        """Whether the last call of the module was made on this thread."""
        return self._depth.thread == threading.get_ident()

    @contextlib.contextmanager
    def unwritten(self) -> Iterator[None]:
        """Run a block whose operators are no part of the loss."""
        was_taped = self._is_taped
        self.pause()
        try:
            yield
        finally:
            if was_taped:
                self._resume()

    @contextlib.contextmanager
    def written_as_one(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        place: Place | None,
    ) -> Iterator[Callable[[object], None]]:
        """Write a call down as one event; pass its result to what this gives."""
        program = self.program
        new, named = map_tensors((args, dict(kwargs)), program.used)
        random, autocast = RandomState.now(), Autocast.now()
        grad = torch.is_grad_enabled()

        def note(out: object) -> None:
            outputs = program.outputs_of(out)
            program.append(
                Operation(function, new, named, outputs, grad, random, place, autocast)
            )

        self.pause()
        try:
            yield note
        finally:
            self._resume()

    def check(self, value: torch.Tensor, again: Callable[[torch.Tensor], None]) -> None:
        """Write down that a value of the loss is checked by hand."""
        if self.is_open and self.program.concerns(value):
            slot, grad = self.program.used(value), torch.is_grad_enabled()
            self.program.append(Operation(again, (slot,), {}, (), grad, None, None))

    def pause(self) -> None:
        """Take the tape off the stack: what runs now is not the loss."""
        if self._is_taped:
            # In this order: an interrupt in between leaves nothing on the stack.
            modes.remove(self._tape)
            self._is_taped = False

    def stand_aside(self, update: object) -> None:
        """Take the tape off the stack while another model is updated."""
        if self._is_taped:
            self.pause()
            self._waits_for = update

    def come_back(self, update: object) -> None:
        """Go on with the tape after the update that it stood aside for."""
        if self._waits_for is update:
            self._resume()

    def _resume(self) -> None:
        self._waits_for = None
        self._is_taped = True
        self._awaits_engine = False
        modes.insert(self._tape)

    def forget(self) -> None:
        """Let go of everything kept of the step, and begin the next."""
        if self._is_taped:
            self.pause()
        self._awaits_engine = self.is_fresh = self._was_taped = False
        self._waits_for = None
        self.losses = []
        if not self.program.is_untouched or self.program.events:
            self._renew()

    def _renew(self) -> None:
        self.program = Program(self._own)
        self._tape.program = self.program

    def _gradient(self, run: EngineRun, result: tuple[Any, ...]) -> Gradient:
        program = self.program
        return Gradient(
            tuple(map(program.read, run.roots)),
            run.seeds,
            tuple(map(program.read, run.inputs)),
            run.retains,
            run.creates,
            run.accumulates,
            tuple([None if g is None else program.made(g) for g in result])
            if result
            else (),
            # Quicker than to detach them; nobody writes to these.
            tuple([root.data for root in run.roots]),
        )

    def _is_known(self, run: EngineRun) -> bool:
        return any(map(self.program.is_own, run.roots))

    def _is_written(self, run: EngineRun) -> bool:
        return not self.program.gap and not any(map(self.program.is_opaque, run.roots))
