# SPDX-License-Identifier: Apache-2.0
"""The per-step logic of a watched PyTorch module."""

from __future__ import annotations

import atexit
import contextlib
import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from numcheck.diagnose.laboratory import CannotRunError
from numcheck.errors import NonFiniteError
from numcheck.monitor import Monitor, Options
from numcheck_torch import doors, engine
from numcheck_torch.capture import BufferSnapshot, Forward, buffer_places
from numcheck_torch.inquiry import audit, inquire
from numcheck_torch.laboratory import TorchLaboratory
from numcheck_torch.loss import LossTape
from numcheck_torch.optimizers import find_optimizers, parameters_of, trains
from numcheck_torch.places import nearest_place
from numcheck_torch.program import Gradient, Program
from numcheck_torch.sentinel import Reading, look
from numcheck_torch.trees import tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch.utils.hooks import RemovableHandle

__all__ = ["TorchMonitor"]

P = ParamSpec("P")
R = TypeVar("R")


def guarded(
    where: str,
) -> Callable[
    [Callable[Concatenate[TorchMonitor, P], R]],
    Callable[Concatenate[TorchMonitor, P], R | None],
]:
    """Keep an error inside a hook of ours from taking the training down."""

    def decorate(
        method: Callable[Concatenate[TorchMonitor, P], R],
    ) -> Callable[Concatenate[TorchMonitor, P], R | None]:
        @functools.wraps(method)
        def safe(self: TorchMonitor, *args: P.args, **kwargs: P.kwargs) -> R | None:
            if self.is_asleep:
                return None
            try:
                return method(self, *args, **kwargs)
            except NonFiniteError:
                raise
            except Exception:  # noqa: BLE001 - STYLE: recorded once, training goes on
                self.fault(where)
                return None

        return safe

    return decorate


class TorchMonitor(Monitor):
    """Watches one module: what it was called with, its loss, gradients and update.

    Args:
        model: the module; gets two hooks of its own.
        options: how to watch.
        optimizers: those that train it; found by their parameters when empty.
        scaler: the gradient scaler, found by itself when None.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        options: Options,
        optimizers: tuple[torch.optim.Optimizer, ...] = (),
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        super().__init__(options)
        self._model = weakref.ref(model)
        self._given = optimizers
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet(
            optimizers
        )
        self.scaler = scaler
        self.initial: dict[str, torch.Tensor] | None = None
        self.clip: tuple[float, torch.Tensor] | None = None
        self._depth = 0
        self._sleepers = 0
        self._program = Program()
        self._tape = LossTape(self._program, self.fault)
        self._losses: list[torch.Tensor] = []
        self._places: list[tuple[torch.nn.Module, str]] | None = None
        self._stepped: set[int] = set()
        self._is_fresh = False
        self._audited = not options.audit_first
        self._handles: list[RemovableHandle] = []
        self._hook(model)

    # --- being on and off ---

    @property
    def model(self) -> torch.nn.Module:
        """The watched module."""
        model = self._model()
        if model is None:
            raise ReferenceError("the watched module no longer exists")
        return model

    @property
    def is_asleep(self) -> bool:
        """Whether hooks do nothing now: closed, or a replay is running."""
        return self._closed or self._sleepers > 0

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """Run a block during which the hooks do nothing."""
        self._sleepers += 1
        try:
            yield
        finally:
            self._sleepers -= 1

    def close(self) -> None:
        """Deliver what is still pending and stop watching. May be called twice."""
        if self._closed:
            return
        try:
            self._settle()
        finally:
            super().close()
            self._tape.remove()
            for handle in self._handles:
                handle.remove()
            for owner, name in _DOORS:
                doors.unlisten(owner, name, self)
            self._forget()

    def _hook(self, model: torch.nn.Module) -> None:
        self._before_id = model.register_forward_pre_hook(
            self._before_forward, prepend=True, with_kwargs=True
        )
        self._after_id = model.register_forward_hook(
            self._after_forward, with_kwargs=True, always_call=True
        )
        self._handles = [
            self._before_id,
            self._after_id,
            register_optimizer_step_pre_hook(self._before_update),
            register_optimizer_step_post_hook(self._after_update),
        ]
        doors.listen(*engine.DOOR, before=self._before_engine, after=self._after_engine)
        atexit.register(_close_at_exit, weakref.ref(self))

    # --- the module's call ---

    @guarded("the hook before the module's call")
    def _before_forward(
        self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if torch.compiler.is_compiling():
            return
        self._depth += 1
        if self._depth > 1 or not torch.is_grad_enabled() or engine.is_inside():
            return
        self._tape.remove()
        self._settle()
        if self.initial is None and self.step == 0 and not self._program.events:
            self._begin(model)
        self._watch_buffers(model)
        place = nearest_place(sys._getframe(2))
        self._forward = Forward.of(model, args, kwargs, self._places or (), place)

    @guarded("the hook after the module's call")
    def _after_forward(
        self,
        model: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Any,
    ) -> None:
        if self._depth == 0:
            return
        self._depth -= 1
        forward = self.__dict__.pop("_forward", None)
        if self._depth > 0 or forward is None:
            return
        self._learn_buffers(forward)
        returned = list(tensors(out))
        if not any(t.requires_grad for t in returned):
            return
        forward.outputs = tuple(self._program.made(t) for t in returned)
        self._program.append(forward)
        self._is_fresh = True
        self._tape.insert()

    def _watch_buffers(self, model: torch.nn.Module) -> None:
        """Copy every buffer before the first call in training, to see which change."""
        if self._places is None and model.training:
            self._places = buffer_places(model)
            self._unknown = True

    def _learn_buffers(self, forward: Forward) -> None:
        if self.__dict__.pop("_unknown", False):
            self._places = list(forward.buffers.changed())
            kept = {(id(m), n) for m, n in self._places}
            entries = forward.buffers.entries
            forward.buffers = BufferSnapshot(
                tuple(e for e in entries if (id(e[0]), e[1]) in kept)
            )

    # --- the engine ---

    @guarded("the hook before the autograd engine")
    def _before_engine(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if engine.is_inside():
            return
        self._tape.remove()

    @guarded("the hook after the autograd engine")
    def _after_engine(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        if engine.is_inside() or not self._program.events:
            return
        run = engine.EngineRun.of(args, kwargs)
        roots = [self._program.slot(r) for r in run.roots]
        if not any(slot is not None for slot in roots):
            return
        event = self._gradient(run, result or ())
        self._program.append(event)
        if run.accumulates:
            self._losses.extend(event.values)
        if run.creates or run.retains or not run.accumulates:
            self._tape.insert()

    def _gradient(self, run: engine.EngineRun, result: tuple[Any, ...]) -> Gradient:
        program = self._program
        return Gradient(
            roots=tuple(program.used(r) for r in run.roots),
            seeds=run.seeds,
            inputs=tuple(program.used(t) for t in run.inputs),
            retains=run.retains,
            creates=run.creates,
            accumulates=run.accumulates,
            outputs=tuple(None if g is None else program.made(g) for g in result),
            values=tuple(r.detach() for r in run.roots),
        )

    # --- the update ---

    @guarded("the hook before the update")
    def _before_update(
        self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any
    ) -> None:
        if not self._is_ours(optimizer):
            return
        self._tape.remove()
        if id(optimizer) in self._stepped:
            self._advance()
        if self._is_fresh:
            self._check()

    @guarded("the hook after the update")
    def _after_update(
        self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any
    ) -> None:
        if not self._is_ours(optimizer):
            return
        self._stepped.add(id(optimizer))
        if self._stepped >= {id(o) for o in self._optimizers}:
            self._forget()

    def _is_ours(self, optimizer: torch.optim.Optimizer) -> bool:
        if optimizer in self._optimizers:
            return True
        if self._given or not trains(optimizer, self._identities()):
            return False
        self._optimizers.add(optimizer)
        return True

    # --- looking ---

    def _check(self) -> None:
        """Look at loss and gradients, once, and act on what is seen."""
        self._is_fresh = False
        reading = look(self._gradients(), self._losses)
        self.observe(
            loss=reading.losses[-1] if reading.losses else None,
            gradient_norm=reading.norm,
        )
        if reading.is_healthy:
            self._healthy()
        else:
            self._trip(reading)

    def _healthy(self) -> None:
        self.rearm()
        every = self.options.every
        if not self._audited or (every is not None and self.step % every == 0):
            self._audited = True
            audit(self, self._laboratory(with_update=True))

    def _trip(self, reading: Reading) -> None:
        inquire(self, self._laboratory(with_update=False), reading)

    def _settle(self) -> None:
        """At the next call, or at the end: look at a step that made no update."""
        if self._stepped:
            if self._stepped >= {id(o) for o in self._optimizers}:
                self._advance()
            return
        if self._is_fresh and self._program.events and self._was_abandoned():
            self._check()
            self._advance()

    def _was_abandoned(self) -> bool:
        """Whether the loop will make no update from what was computed so far."""
        if not self._program.gradients:
            return True
        return not any(True for _ in self._gradients())

    def _advance(self) -> None:
        self.step += 1
        self._stepped.clear()
        self._forget()

    def _forget(self) -> None:
        """Let go of everything kept of the step."""
        self._is_fresh = False
        self._losses = []
        self._program = Program()
        self._tape.program = self._program
        self.clip = None

    # --- what is known ---

    def _begin(self, model: torch.nn.Module) -> None:
        """Look around once, when training begins."""
        from numcheck_torch.initial import copy_of_parameters

        self.initial = copy_of_parameters(model)
        if not self._given:
            for optimizer in find_optimizers(self._identities()):
                self._optimizers.add(optimizer)

    @property
    def optimizers(self) -> tuple[torch.optim.Optimizer, ...]:
        """The optimizers known to train the module."""
        return tuple(self._optimizers)

    @property
    def program(self) -> Program:
        """What the present step did so far."""
        return self._program

    def _identities(self) -> set[int]:
        return {id(p) for p in self.model.parameters()}

    def _gradients(self) -> list[tuple[str, torch.Tensor]]:
        return [
            (name, p.grad)
            for name, p in self.model.named_parameters()
            if p.grad is not None
        ]

    def _laboratory(self, *, with_update: bool) -> TorchLaboratory:
        return TorchLaboratory(
            self.model,
            self._program,
            self.step,
            asleep=self.asleep,
            optimizers=self.optimizers if with_update else (),
            initial=self.initial or None,
            meta={"framework": "torch", "torch": torch.__version__},
        )


_DOORS = (engine.DOOR,)


def _close_at_exit(reference: weakref.ref[TorchMonitor]) -> None:
    monitor = reference()
    if monitor is None:
        return
    try:
        monitor.close()
    except NonFiniteError as error:
        print(error, file=sys.stderr)  # noqa: T201 - nobody is left to catch it
