# SPDX-License-Identifier: Apache-2.0
"""The per-step logic of a watched PyTorch module."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from numcheck.at_exit import close_at_exit
from numcheck.datacheck.watching import BatchWatch
from numcheck.diagnose.still_watch import StillWatch
from numcheck_torch.batch_watch import look_at_batch
from numcheck_torch.boundary import BOUNDARY
from numcheck_torch.clipping import tell_clipped_away
from numcheck_torch.distributed import together
from numcheck_torch.failed_call import MOST_IN_VAIN, explain
from numcheck_torch.guard import guarded
from numcheck_torch.handed_out import HandedOut, Writes
from numcheck_torch.hooks import Hooks
from numcheck_torch.inquiry import audit, inquire
from numcheck_torch.loss_function import released
from numcheck_torch.optimizers import with_closure
from numcheck_torch.places import nearest_place
from numcheck_torch.sentinel import Reading
from numcheck_torch.transforms import is_pretended
from numcheck_torch.upstream import maker_of_bad_input
from numcheck_torch.withhold import Withheld

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from numcheck.options import Options
    from numcheck_torch.engine import EngineRun

__all__ = ["TorchMonitor"]


class TorchMonitor(HandedOut):
    """Watches one module: what it was called with, its loss, gradients and update.

    Args:
        model: the module, or several by name where one loss trains them together;
            each gets two hooks of its own.
        options: how to watch.
        optimizers: those that train it; found by their parameters when empty.
        scaler: the gradient scaler; heard of by itself when None.
        owner: who alone can go on with a step, where that is not the module.
        sync: wait for the device at each look; else the next look reads the answer.
    """

    def __init__(
        self,
        model: torch.nn.Module | Mapping[str, torch.nn.Module],
        options: Options,
        optimizers: tuple[torch.optim.Optimizer, ...] = (),
        scaler: torch.amp.GradScaler | None = None,
        owner: object | None = None,
        *,
        sync: bool = True,
    ) -> None:
        super().__init__(model, options, optimizers, scaler, owner)
        parts = [model] if isinstance(model, torch.nn.Module) else [*model.values()]
        self._audit_due = options.audit_first
        self._still = StillWatch()
        self._waits = sync
        self._batches = BatchWatch(self.rank) if options.check_data else None
        self._withheld: Withheld | None = None
        self._in_vain, self._writes = 0, Writes(self.model)
        self.hooks = Hooks(parts, self)
        self._leave_exit = close_at_exit(self)

    def close(self) -> None:
        """Deliver what is still pending and stop watching. May be called twice."""
        if self._closed:
            return
        self._leave_exit()
        self._is_ending = True
        try:
            self._settle_at_end()
            self.settle_debts()
            if self._batches is not None:
                self.deliver(self._batches.close())
        finally:
            self._keep_trace()
            self._window.close()
            if self._saving is not None:
                self._saving.rest()
            BOUNDARY.shut(self)
            self.parts.close()
            self.hooks.detach()
            if self._overflow is not None:
                self._overflow.close()
            for loss_fn in self._loss_functions:
                released(loss_fn)
            self.is_asleep = True
            super().close()

    # --- the step, as it is heard ---

    @guarded("fault.compiled_module")
    def attached(self, module: torch.nn.Module) -> None:
        """Learn of a module that is called, perhaps compiled."""
        self.parts.attach(module)

    @guarded("fault.before_call")
    def before_call(
        self,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        caller: FrameType,
    ) -> None:
        """Keep what the call needs to be made again."""
        window = self._window
        if not window.enter(caller) or not torch.is_grad_enabled():
            return
        if is_pretended() or not self._parameters.are_at_hand(self.step):
            return
        if self._doubt is not None:
            self._settle_doubt()
        if window.is_fresh or self._fleet.stepped or self._is_abandoned:
            self._settle()
        if self._initial is None:
            self._begin()
        if self._overflow is not None and window.is_empty:
            self._overflow.clear()
        subject = self._core.lasting(module)
        window.begin(subject, args, kwargs, nearest_place(caller))
        BOUNDARY.open(self)
        if module._compiled_call_impl is not None:
            self.parts.attach(module)
        if self.options.level != "watch":
            self._live.begin(self.step)
            self._live.called(args, kwargs)
        if self._saving is not None:
            self._saving.listen(self.step)

    @guarded("fault.after_call")
    def after_call(self, out: object) -> None:
        """Write the call down and start the tape of the loss."""
        if self._saving is not None and self._window.is_outermost:
            self._saving.rest()
        if self._window.leave(out):
            self.hold(self._core.lasting())

    @guarded("fault.after_call")
    def call_failed(self, error: BaseException) -> None:
        """See whether the call failed over a NaN or Inf in it."""
        if self._saving is not None and self._window.is_outermost:
            self._saving.rest()
        call = self._window.fail()
        if call is not None and self._in_vain < MOST_IN_VAIN and self.ranks.is_alone:
            with self._live.suspended():
                self._in_vain += not explain(self, call, error)

    @guarded("fault.before_engine")
    def before_backward(self) -> None:
        """Take the tape off before the gradients at the loss are made."""
        self._window.before_backward()

    @guarded("fault.before_engine")
    def before_engine(self, run: EngineRun) -> None:
        """Stop the tape: the loss is complete."""
        self._window.before_engine(run)

    @guarded("fault.after_engine")
    def after_engine(self, run: EngineRun, result: tuple[Any, ...]) -> None:
        """Write down what was differentiated."""
        if not self._window.after_engine(run, result):
            self._hear_unread(run)
            return
        self._has_read = True
        self.scale.recognise(self._window.program)
        if self._fleet.is_empty and (run.accumulates or self._takes(run, result)):
            # Whoever makes the update, it is nobody that can be heard.
            self._check()
            self._advance()

    @guarded("fault.at_clipping")
    def clipped(
        self, parameters: Any, max_norm: float, total_norm: torch.Tensor
    ) -> None:
        """Keep the norm the loop computed anyway."""
        if isinstance(parameters, list) and self._parameters.are_among(
            parameters, self.step
        ):
            self.clip = float(max_norm), total_norm
            self.clip_limit = float(max_norm)

    @guarded("fault.before_update")
    def before_update(
        self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any
    ) -> Any:
        """Look at loss and gradients before they are used."""
        fleet, window = self._fleet, self._window
        if is_pretended():
            return None
        if not fleet.knows(optimizer) and not fleet.takes(optimizer, self.model):
            window.stand_aside(optimizer)
            return None
        window.pause()
        if id(optimizer) in fleet.stepped:
            self._advance()
        followed = None
        if len(args) > 1 or kwargs:
            followed = with_closure(args, kwargs, self._evaluated)
        if window.is_fresh:
            self._check(getattr(optimizer, "found_inf", None))
        elif window.is_empty and followed is None:
            self._check_uncalled(getattr(optimizer, "found_inf", None))
        if self._saving is not None and not fleet.stepped:
            named = self._parameters.named(self.step)
            self._saving.keep(self.step, self._window.losses, named)
        if self._is_bad and self.options.on_error == "skip":
            self._withheld = Withheld(optimizer)
        if self._live.is_on:
            gradients = self._parameters.gradients(self.step)
            self._live.before_update(self._window.losses, gradients, self.program)
        return followed

    @guarded("fault.closure")
    def _evaluated(self) -> None:
        """Look at what a closure computed, before the optimizer uses it."""
        if self._window.is_fresh:
            self._check()
        self._window.forget()

    @guarded("fault.after_update")
    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Let go of the step when its last optimizer is done."""
        fleet = self._fleet
        if not fleet.knows(optimizer) and not fleet.takes(optimizer, self.model):
            self._window.come_back(optimizer)
            return
        if self._withheld is not None:
            self._withheld.give_back()
            self._withheld = None
        fleet.stepped.add(id(optimizer))
        if fleet.is_done:
            self._keep_trace()
            self._keep_program()
            self._let_go()

    @guarded("fault.scale_update")
    def before_scale_update(self, scaler: torch.amp.GradScaler) -> None:
        """Notice a step that the scaler skipped."""
        if not scaler.is_enabled() or self._window.is_empty:
            return
        self.scale.follow(scaler)
        if self._window.is_fresh and self._window.program.gradients:
            self._skipped()

    # --- looking ---

    def stop(self) -> None:
        """Hear that another rank's step is bad: its update is one of all ranks."""
        self._is_bad = True

    @together
    def _check(self, found_inf: torch.Tensor | None = None) -> None:
        """Look at loss and gradients, once, and act on what is seen."""
        self._window.is_fresh = False
        # A gradient scaler waits for the device itself.
        if not self._waits and not self.scale.is_dynamic:
            self._look_later()
            return
        reading = self._look_at_step(found_inf)
        if self._overflow is not None and not reading.overflowed:
            self._overflow.read()
            reading = reading.beside(self._overflow.is_heeded)
        self.observe(
            loss=reading.loss,
            gradient_norm=reading.norm,
            learning_rate=self._fleet.learning_rate,
        )
        self._is_bad = not reading.is_healthy
        if reading.overflowed:
            self._skipped()
        elif not reading.is_healthy:
            if not self._doubts(reading):
                self._failed(reading)
        elif self.clip is not None and reading.norm == math.inf:
            self._clipped_away(self.clip[1])
        else:
            self._healthy()

    def _failed(self, reading: Reading, *, unscaled: bool = False) -> None:
        """Find out why the present step is bad, and do what the user asked for."""
        self._window.is_fresh = False
        BOUNDARY.shut(self)
        maker = maker_of_bad_input(self.program, self.beside())
        if isinstance(maker, TorchMonitor):
            maker.returned_bad()
            return
        if self.options.on_error == "skip":
            self.observe(skipped=1.0)
        if self.options.on_error == "raise":
            self._end_trace()
        laboratory = self.laboratory(with_update=False, unscaled=unscaled)
        # What is computed to look at the step is no part of its record.
        with self._live.suspended():
            inquire(self, laboratory, reading)

    def returned_bad(self) -> None:
        """Hear that what the module returned broke the step of another one."""
        self._failed(Reading((), None, ("output",)))

    def _clipped_away(self, total: torch.Tensor) -> None:
        """Tell that clipping by an infinite norm left zeros of all gradients."""
        tell_clipped_away(self, self.laboratory(with_update=False), total)

    def _healthy(self) -> None:
        self.rearm()
        self.scale.applied()
        every = self.options.every
        is_sampled = every is not None and self.step % every == 0
        claimed = self.claim_growth_audit() or self.claim_still_audit()
        if self._audit_due or is_sampled or claimed:
            self._audit_due = False
            audit(self, self.laboratory(with_update=True))
        self.heed_growth()
        if self._batches is not None:
            look_at_batch(self, self._batches)

    def _skipped(self) -> None:
        """Look at a step that the gradient scaler skips, and go on to the next."""
        self._judge_skipped()
        self._advance()

    @together
    def _judge_skipped(self) -> None:
        """Judge a step that the gradient scaler skips: a search, or a fault."""
        self._window.is_fresh = False
        self.observe(skipped=1.0, loss_scale=self.scale.value)
        reading = self._look([], self._window.losses)
        # A checked gradient overflows with the others while a scale is searched.
        searched = {site.op for site, _ in reading.checked if site.phase == "backward"}
        if self.scale.is_suspicious(loss_is_finite=searched.issuperset(reading.bad)):
            laboratory = self.laboratory(with_update=False, unscaled=True)
            if not self._is_search(laboratory):
                self._failed(reading, unscaled=True)

    def _settle(self) -> None:
        """At the next call, or at the end: look at what no update will use."""
        if self._is_abandoned:
            # Whoever caught the error begins anew.
            self._advance()
        elif self._fleet.stepped:
            if self._fleet.is_done:
                self._advance()
        elif self._window.is_fresh:
            if self._window.awaits_gradient:
                self._check_thrown_away(self._window.candidates)
            elif self.clip is not None or not self._has_gradients():
                self._check_thrown_away(self._window.losses)

    @guarded("fault.last_step")
    def _settle_at_end(self) -> None:
        self._window.pause()
        self._window.program.is_last = True
        self._read_deferred()
        self._settle_doubt()
        if self._fleet.stepped:
            self._check_last_update()
        self._tell_unheard()
        self._settle()
        if self._checks:
            self._check_thrown_away([])

    def _check_thrown_away(self, losses: list[torch.Tensor]) -> None:
        """Look at a loss that the loop did not use, perhaps because it was bad."""
        norms = [] if self.clip is None else [self.clip[1]]
        reading = self._look([], [*losses, *norms])
        if reading.is_healthy:
            self._window.prune()
            return
        self._put_off_or_fail(reading)
        self._advance()

    def _advance(self) -> None:
        self._keep_trace()
        if self._deferred is not None and not self._window.is_empty:
            self._keep_program()
        self.step += 1
        self.clip, self._handed = None, []
        self._is_bad = self._is_abandoned = False
        self._fleet.stepped.clear()
        self._let_go()

    def _let_go(self) -> None:
        """Hold nothing of the step any more."""
        self._window.forget()
        self.release()
        BOUNDARY.shut(self)
