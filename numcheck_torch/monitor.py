# SPDX-License-Identifier: Apache-2.0
"""The per-step logic of a watched PyTorch module."""

from __future__ import annotations

import atexit
import contextlib
import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any

import torch

from numcheck.errors import NonFiniteError
from numcheck.monitor import Monitor
from numcheck_torch.guard import guarded
from numcheck_torch.hooks import Hooks
from numcheck_torch.initial import copy_of_parameters
from numcheck_torch.inquiry import audit, inquire
from numcheck_torch.laboratory import TorchLaboratory
from numcheck_torch.live import Live
from numcheck_torch.loss_function import followed, released
from numcheck_torch.npu import overflow_flag
from numcheck_torch.observed import observed
from numcheck_torch.optimizers import Fleet, with_closure
from numcheck_torch.scaler import ScaleWatch
from numcheck_torch.sentinel import look
from numcheck_torch.unwrap import Subject, core_of
from numcheck_torch.window import Window
from numcheck_torch.withhold import Withheld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numcheck.monitor import Options
    from numcheck.record.trace import Trace
    from numcheck_torch.engine import EngineRun
    from numcheck_torch.npu import OverflowFlag
    from numcheck_torch.places import Place
    from numcheck_torch.program import Program
    from numcheck_torch.sentinel import Reading

__all__ = ["TorchMonitor"]

_NAMES_LAST = 64
"""Steps after which the list of parameters is made anew."""


class TorchMonitor(Monitor):
    """Watches one module: what it was called with, its loss, gradients and update.

    Args:
        model: the module, or several by name where one loss trains them together;
            each gets two hooks of its own.
        options: how to watch.
        optimizers: those that train it; found by their parameters when empty.
        scaler: the gradient scaler; heard of by itself when None.
    """

    def __init__(
        self,
        model: torch.nn.Module | Mapping[str, torch.nn.Module],
        options: Options,
        optimizers: tuple[torch.optim.Optimizer, ...] = (),
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        super().__init__(options, framework="torch", torch=str(torch.__version__))
        self.scale = ScaleWatch(scaler)
        self.clip: tuple[float, torch.Tensor] | None = None
        parts = [model] if isinstance(model, torch.nn.Module) else [*model.values()]
        self._core = Subject(model)
        self._window = Window(self.fault)
        self._fleet = Fleet(optimizers)
        self._initial: dict[str, torch.Tensor] | None = None
        self._overflow: OverflowFlag | None = None
        self._audit_due = options.audit_first
        self._is_bad = False
        self._named: list[tuple[str, torch.nn.Parameter]] | None = None
        self._named_until = 0
        self._live = Live(options.level, self.model, self._described())
        self._withheld: Withheld | None = None
        self._earlier: tuple[int, Program] | None = None
        self._loss_functions: list[Callable[..., Any]] = []
        self._sleepers = 0
        self.hooks = Hooks(parts, self)
        self._at_exit = functools.partial(_close_at_exit, weakref.ref(self))
        atexit.register(self._at_exit)

    # --- being on and off ---

    @property
    def model(self) -> torch.nn.Module:
        """The watched module itself, without compiled or distributed wrappers."""
        return self._core.module

    @property
    def program(self) -> Program:
        """What the present step did so far."""
        return self._window.program

    @property
    def optimizers(self) -> tuple[torch.optim.Optimizer, ...]:
        """The optimizers known to train the module."""
        return self._fleet.known

    @property
    def is_asleep(self) -> bool:
        """Whether hooks do nothing now: closed, or a replay is running."""
        return self._closed or self._sleepers > 0

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """Run a block during which the hooks do nothing."""
        self._sleepers += 1
        try:
            with self._live.suspended():
                yield
        finally:
            self._sleepers -= 1

    def watch(self, loss_fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a loss function to use in place of `loss_fn`.

        Not needed where the loss is computed between the module and `backward` in the
        ordinary way. It helps where operators hide from PyTorch's dispatcher: compiled
        losses, and autograd functions of one's own.
        """
        self._loss_functions.append(loss_fn)
        return followed(loss_fn, self._window)

    def close(self) -> None:
        """Deliver what is still pending and stop watching. May be called twice."""
        if self._closed:
            return
        atexit.unregister(self._at_exit)
        try:
            self._settle_at_end()
        finally:
            self._keep_trace()
            self._window.forget()
            self.hooks.detach()
            if self._overflow is not None:
                self._overflow.close()
            for loss_fn in self._loss_functions:
                released(loss_fn)
            super().close()

    # --- the step, as it is heard ---

    @guarded("the hook before the module's call")
    def before_call(
        self,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        place: Place | None,
    ) -> None:
        """Keep what the call needs to be made again."""
        if not self._window.enter() or not torch.is_grad_enabled():
            return
        self._settle()
        if self._initial is None:
            self._begin()
        if self._overflow is not None and self._window.is_empty:
            self._overflow.clear()
        self._window.begin(core_of(module), args, kwargs, place)
        self._live.begin(self.step)
        self._live.called(args, kwargs)

    @guarded("the hook after the module's call")
    def after_call(self, out: object) -> None:
        """Write the call down and start the tape of the loss."""
        self._window.leave(out)

    @guarded("the hook before the autograd engine")
    def before_engine(self, run: EngineRun) -> None:
        """Stop the tape: the loss is complete."""
        self._window.before_engine(run)

    @guarded("the hook after the autograd engine")
    def after_engine(self, run: EngineRun, result: tuple[Any, ...]) -> None:
        """Write down what was differentiated."""
        if not self._window.after_engine(run, result):
            return
        self.scale.recognise(self.program)
        if run.accumulates and not self._fleet.known:
            # Whoever makes the update, it is nobody that can be heard.
            self._check()
            self._advance()

    @guarded("the hook at gradient clipping")
    def clipped(
        self, parameters: Any, max_norm: float, total_norm: torch.Tensor
    ) -> None:
        """Keep the norm the loop computed anyway."""
        if isinstance(parameters, list) and self._covers(parameters):
            self.clip = float(max_norm), total_norm

    @guarded("the hook before the update")
    def before_update(
        self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any
    ) -> Any:
        """Look at loss and gradients before they are used."""
        if not self._fleet.takes(optimizer, self.model):
            return None
        self._window.pause()
        if self._fleet.stepped_already(optimizer):
            self._advance()
        if self._window.is_fresh:
            self._check(found_inf=getattr(optimizer, "found_inf", None))
        if self._is_bad and self.options.on_error == "skip":
            self._withheld = Withheld(optimizer)
        self._live.before_update(self._window.losses, self._gradients())
        return with_closure(args, kwargs, self._evaluated)

    @guarded("the look at a closure's gradients")
    def _evaluated(self) -> None:
        """Look at what a closure computed, before the optimizer uses it."""
        if self._window.is_fresh:
            self._check()
        self._window.forget()

    @guarded("the hook after the update")
    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Let go of the step when its last optimizer is done."""
        if not self._fleet.takes(optimizer, self.model):
            return
        if self._withheld is not None:
            self._withheld.give_back()
            self._withheld = None
        self._fleet.note_step(optimizer)
        if self._fleet.is_done:
            self._keep_trace()
            self._earlier = (self.step, self.program) if self.program.is_small else None
            self._window.forget()

    @guarded("the hook at the loss scale's update")
    def before_scale_update(self, scaler: torch.amp.GradScaler) -> None:
        """Notice a step that the scaler skipped."""
        if not scaler.is_enabled() or self._window.is_empty:
            return
        self.scale.follow(scaler)
        if self._window.is_fresh and self._window.program.gradients:
            self._skipped()

    # --- looking ---

    def _check(self, found_inf: torch.Tensor | None = None) -> None:
        """Look at loss and gradients, once, and act on what is seen."""
        self._window.is_fresh = False
        reading = look(
            self._gradients(),
            self._window.losses,
            total=None if self.clip is None else self.clip[1],
            found_inf=found_inf,
            scale=self.scale.tensor if self.scale.is_dynamic else None,
        )
        if self._overflow is not None and not reading.overflowed:
            reading = reading.beside(self._overflow.read())
        self.observe(
            loss=reading.loss,
            gradient_norm=reading.norm,
            learning_rate=self._fleet.learning_rate,
        )
        self._is_bad = not reading.is_healthy
        if reading.overflowed:
            self._skipped()
        elif reading.is_healthy:
            self._healthy()
        else:
            self._failed(reading)

    def _failed(self, reading: Reading, *, unscaled: bool = False) -> None:
        """Find out why the present step is bad, and do what the user asked for."""
        self._window.is_fresh = False
        if self.options.on_error == "skip":
            self.observe(skipped=1.0)
        if self.options.on_error == "raise":
            self._keep_trace()
        inquire(self, self.laboratory(with_update=False, unscaled=unscaled), reading)

    def _healthy(self) -> None:
        self.rearm()
        self.scale.applied()
        every = self.options.every
        if self._audit_due or (every is not None and self.step % every == 0):
            self._audit_due = False
            audit(self, self.laboratory(with_update=True))

    def _skipped(self) -> None:
        """Judge a step that the gradient scaler skips: a search, or a fault."""
        self._window.is_fresh = False
        self.observe(skipped=1.0, loss_scale=self.scale.value)
        reading = look([], self._window.losses)
        if self.scale.is_suspicious(loss_is_finite=reading.is_healthy):
            laboratory = self.laboratory(with_update=False, unscaled=True)
            if not laboratory.is_healthy():
                self._failed(reading, unscaled=True)
        self._advance()

    def _settle(self) -> None:
        """At the next call, or at the end: look at what no update will use."""
        if self._fleet.has_stepped:
            if self._fleet.is_done:
                self._advance()
        elif self._window.is_fresh:
            if self._window.awaits_gradient:
                self._check_thrown_away(self._window.candidates)
            elif not self._trained():
                self._check_thrown_away(self._window.losses)

    @guarded("the look at the last step")
    def _settle_at_end(self) -> None:
        self._window.pause()
        if self._fleet.has_stepped:
            self._check_last_update()
        self._settle()

    def _check_last_update(self) -> None:
        """Look at what the last update left, since no step will."""
        reading = look(list(self.model.named_parameters()), [])
        if not reading.is_healthy and self._earlier is not None:
            _, self._window.program = self._earlier
            self._failed(reading)

    def _check_thrown_away(self, losses: list[torch.Tensor]) -> None:
        """Look at a loss that the loop did not use, perhaps because it was bad."""
        norms = [] if self.clip is None else [self.clip[1]]
        reading = look([], [*losses, *norms])
        if reading.is_healthy:
            self._window.prune()
            return
        self._failed(reading)
        self._advance()

    def _advance(self) -> None:
        self._keep_trace()
        self.step += 1
        self.clip = None
        self._is_bad = False
        self._fleet.clear()
        self._window.forget()

    def _keep_trace(self) -> None:
        """End the recording of the step, where steps are recorded."""
        trace = self._live.finish()
        if trace is not None:
            self.record(trace)

    # --- what is known ---

    def _described(self) -> dict[str, str]:
        return {"framework": "torch", "torch": str(torch.__version__)}

    def laboratory(
        self, *, with_update: bool, unscaled: bool = False
    ) -> TorchLaboratory:
        """Return the present step, ready to be run again.

        Args:
            with_update: the optimizers' update belongs to it.
            unscaled: with a loss scale of 1 in place of the scaler's.
        """
        return self._bench(
            self.program,
            self.step,
            optimizers=self.optimizers if with_update else (),
            unscaled=unscaled,
        )

    def earlier_laboratory(self, ruined: tuple[str, ...]) -> TorchLaboratory | None:
        """Return the step before, whose update ruined the named parameters."""
        if self._earlier is None:
            return None
        step, program = self._earlier
        optimizers = self.optimizers
        return self._bench(program, step, optimizers=optimizers, repaired=ruined)

    def _bench(self, program: Program, step: int, **changes: Any) -> TorchLaboratory:
        return TorchLaboratory(
            self.model,
            program,
            step,
            asleep=self.asleep,
            initial=self._initial or None,
            scale=self.scale.tensor,
            meta=self._described(),
            **changes,
        )

    def observed(self) -> Trace:
        """Return what can be looked at of the present step without running it."""
        losses = self._window.losses or self._window.candidates
        gradients = self._gradients()
        return observed(
            self.step, self.model, self.program, losses, gradients, **self._described()
        )

    def _begin(self) -> None:
        """Look around once, when training begins."""
        self._initial = copy_of_parameters(self.model)
        self._window.trains(self.model.parameters())
        self._fleet.look_around(self.model)
        self.scale.look_around()
        self._overflow = overflow_flag(listening=True)

    def _trained(self) -> list[torch.nn.Parameter]:
        """Return the parameters that have a gradient now."""
        self._gradients()
        return [p for _, p in self._named or () if p.grad is not None]

    def _gradients(self) -> list[tuple[str, torch.Tensor]]:
        if self._named is None or self.step >= self._named_until:
            # Walking the modules costs more than the check itself.
            self._named = list(self.model.named_parameters())
            self._named_until = self.step + _NAMES_LAST
        return [(n, p.grad) for n, p in self._named if p.grad is not None]

    def _covers(self, parameters: list[Any]) -> bool:
        """Whether the list holds every parameter that has a gradient."""
        listed = {id(p) for p in parameters}
        return all(id(p) in listed for p in self._trained())


def _close_at_exit(reference: weakref.ref[TorchMonitor]) -> None:
    monitor = reference()
    if monitor is None:
        return
    try:
        monitor.close()
    except NonFiniteError as error:
        print(error, file=sys.stderr)  # noqa: T201 - nobody is left to catch it
