# SPDX-License-Identifier: Apache-2.0
"""What a monitor knows of its module, and the steps it can run again."""

from __future__ import annotations

import collections
import contextlib
from typing import TYPE_CHECKING, Any

import torch

from numcheck.errors import NonFiniteError
from numcheck.monitor import Monitor
from numcheck.record.notice import notice
from numcheck_torch.boundary import BOUNDARY
from numcheck_torch.compiled_parts import CompiledParts
from numcheck_torch.distributed import (
    Ranks,
    in_turn,
    of_rank,
    rank_of_process,
    world_size,
)
from numcheck_torch.distributed.quiet import spoken
from numcheck_torch.distributed.sharding import holds_back
from numcheck_torch.initial import copy_of_parameters
from numcheck_torch.laboratory import TorchLaboratory
from numcheck_torch.live import Live
from numcheck_torch.loss_function import followed
from numcheck_torch.npu import overflow_flag, untrusted_reductions
from numcheck_torch.observed import observed
from numcheck_torch.optimizers import Fleet
from numcheck_torch.parameters import Parameters
from numcheck_torch.saving import Saving
from numcheck_torch.scaler import ScaleWatch
from numcheck_torch.unwrap import Subject
from numcheck_torch.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numcheck.diagnose.finding import Finding
    from numcheck.measure.summary import Summary
    from numcheck.options import Options
    from numcheck.record.site import Site
    from numcheck.record.trace import Trace
    from numcheck_torch.boundary import Again, Checked
    from numcheck_torch.distributed import Request
    from numcheck_torch.hooks import Hooks
    from numcheck_torch.npu import OverflowFlag
    from numcheck_torch.program import Program

__all__ = ["Bench"]

MOST_CHECKS = 4096
"""Values checked by hand that wait to be read, of a program that never trains."""


class Bench(Monitor):
    """A monitor's knowledge of its module; `TorchMonitor` adds the listening.

    Args:
        model: the module, or several by name where one loss trains them together.
        options: how to watch.
        optimizers: those that train it; found by their parameters when empty.
        scaler: the gradient scaler; heard of by itself when None.
        owner: who alone can go on with a step, where that is not the module.
    """

    def __init__(
        self,
        model: torch.nn.Module | Mapping[str, torch.nn.Module],
        options: Options,
        optimizers: tuple[torch.optim.Optimizer, ...] = (),
        scaler: torch.amp.GradScaler | None = None,
        owner: object | None = None,
    ) -> None:
        self.ranks = Ranks()
        with in_turn(options.run):
            super().__init__(
                options,
                rank=rank_of_process(),
                world_size=world_size(),
                **self._described(),
            )
        self.scale = ScaleWatch(scaler)
        self.clip: tuple[float, torch.Tensor] | None = None
        self.clip_limit: float | None = None
        self._core = Subject(model, owner, self._left)
        self._window = Window(self.fault, self._core.owner)
        self._fleet = Fleet(optimizers)
        self._initial: dict[str, torch.Tensor] | None = None
        self._overflow: OverflowFlag | None = None
        self._parameters = Parameters(self._core)
        self.parts = CompiledParts(
            are_recorded=options.level == "trace", path=self._core.path
        )
        self._live = Live(options.level, self.model, self._described(), self.parts)
        self._earlier: tuple[int, Program] | None = None
        self._loss_functions: list[Callable[..., Any]] = []
        self._sleepers = 0
        self._is_abandoned = False
        self.is_asleep = False
        self._checks: collections.deque[Checked] = collections.deque(maxlen=MOST_CHECKS)
        self._bad_checks: tuple[tuple[Site, Summary], ...] = ()

        self._owed: list[Finding] = []
        self._is_ending = False
        self._recorded: collections.deque[tuple[int, Trace]] = collections.deque(
            maxlen=2
        )
        self._saving: Saving | None = None
        self._handed: list[tuple[str, torch.Tensor]] = []

    hooks: Hooks

    @property
    def model(self) -> torch.nn.Module:
        """The watched module itself, without compiled or distributed wrappers."""
        return self._core.module

    def deliver(self, findings: Iterable[Finding]) -> None:
        """Keep the findings and do what the user asked for on errors.

        What one of several ranks finds between their looks waits for the next one: had
        it stopped alone, the others would wait for it in the next collective.

        Raises:
            NonFiniteError: under ``on_error="raise"``, when one of them is an error.
        """
        if self.ranks.are_elsewhere and not self._is_ending:
            self._owed.extend(findings)
            return
        try:
            super().deliver(findings)
        except NonFiniteError:
            # The error keeps the model alive, and nobody goes on with the step.
            BOUNDARY.shut(self)
            self._is_abandoned = True
            raise

    def settle_debts(self) -> None:
        """Deliver what was found while the other ranks were elsewhere.

        Raises:
            NonFiniteError: as the user's policy says.
        """
        owed, self._owed = self._owed, []
        if owed:
            self.deliver(owed)

    def _left(self) -> None:
        """Stop listening to a step that nobody goes on with; it is looked at later."""
        self._window.pause()
        self._live.rest()
        BOUNDARY.shut(self)

    @property
    def program(self) -> Program:
        """What the present step did so far."""
        return self._window.program

    @property
    def optimizers(self) -> tuple[torch.optim.Optimizer, ...]:
        """The optimizers known to train the module."""
        return self._fleet.known

    @property
    def initial(self) -> Mapping[str, torch.Tensor] | None:
        """Copies of the parameters at the first watched step, where kept."""
        return self._initial

    @property
    def reads_overflow_flag(self) -> bool:
        """Whether the device has a flag that tells of overflows."""
        return self._overflow is not None

    @property
    def flag_stayed_clear(self) -> bool:
        """Whether that flag was clear when it was read last."""
        return self._overflow is not None and self._overflow.is_set is False

    def judge_flag(self, *, in_vain: bool) -> None:
        """Learn whether the replay of a step that set the flag found nothing."""
        if self._overflow is not None:
            self._overflow.judge(in_vain=in_vain)

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """Run a block during which no monitor's hooks do anything on this thread."""
        with contextlib.ExitStack() as stack:
            for monitor in (*self.beside(), self):
                stack.enter_context(monitor.unheard())
            yield

    def beside(self) -> list[Bench]:
        """Return the other monitors whose step is under way on this thread."""
        found = [m for m in BOUNDARY.under_way if isinstance(m, Bench)]
        return [m for m in found if m is not self and m._window.is_of_this_thread]

    @contextlib.contextmanager
    def unheard(self) -> Iterator[None]:
        """Run a block during which its own hooks do nothing."""
        self._sleepers += 1
        self.is_asleep = True
        try:
            with self._live.suspended(), self._window.unwritten():
                yield
        finally:
            self._sleepers -= 1
            self.is_asleep = self._closed or self._sleepers > 0

    def save(self, pattern: str) -> None:
        """Keep the tensors a pattern names, at every step or at every `every`-th.

        Raises:
            ArgumentError: the run has no folder.
        """
        every = self.options.every or 1
        self._saving = Saving(pattern, every, self._run, self.model, self.fault)

    def take(self, checked: Checked) -> None:
        """Keep what somebody checks by hand until the step is looked at."""
        self._checks.append(checked)

    def follow(self, value: torch.Tensor, again: Again) -> None:
        """Note that a value of the loss is checked by hand."""
        self._window.check(value, again)

    def watch(self, loss_fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a loss function to use in place of `loss_fn`.

        Not needed where the loss is computed between the module and `backward` in the
        ordinary way. It helps where operators hide from PyTorch's dispatcher: compiled
        losses, and autograd functions of one's own.
        """
        self._loss_functions.append(loss_fn)
        return followed(loss_fn, self._window)

    def _gradients(self) -> list[tuple[str, torch.Tensor]]:
        """Return (name, gradient) of each parameter that has one, or was handed one."""
        return self._handed or self._parameters.gradients(self.step)

    def _has_gradients(self) -> bool:
        """Whether gradients of the step are there, or wait where no name leads."""
        return bool(self._parameters.gradients(self.step)) or holds_back(self.model)

    def _end_trace(self) -> None:
        """End the recording of a step before its update, with what it came to."""
        losses = self._window.losses or self._window.candidates
        gradients = self._gradients()
        try:
            self._live.before_update(losses, gradients, self.program)
        except Exception:  # noqa: BLE001 - why the step broke is still to be told
            self.fault("fault.recording")
        self._keep_trace()

    def _keep_trace(self) -> None:
        """End the recording of the step, where steps are recorded."""
        try:
            trace = self._live.finish() if self._live.is_on else None
        except Exception:  # noqa: BLE001 - the step itself is looked at all the same
            self.fault("fault.recording")
            return
        if trace is not None:
            self._recorded.append((self.step, trace))
            self.record(of_rank(trace, self.rank))
            for note in self.parts.news():
                self.observe(note=note)

    def recorded(self) -> Trace | None:
        """Return what level ``trace`` recorded of the present step, ended by this."""
        if self.options.level != "trace":
            return None
        self._end_trace()
        return self.recorded_at(self.step)

    def recorded_at(self, step: int) -> Trace | None:
        """Return what was recorded of the present step, or of the one before."""
        return next((trace for at, trace in self._recorded if at == step), None)

    def prepared(self, request: Request) -> tuple[str, object]:
        """Return why another rank's request cannot be met, and what it would run."""
        laboratory = self._asked(request)
        if laboratory is None:
            return "refusal.no_update", None
        laboratory.program.ensure_runnable()
        rows = laboratory.rows() if request.what == "on_rows" else None
        return "", (*spoken(laboratory.program), rows)

    def assist(self, request: Request) -> None:
        """Run this rank's part of what another one wants to see."""
        laboratory = self._asked(request)
        if laboratory is not None:
            getattr(laboratory, request.what)(*request.arguments)

    def _asked(self, request: Request) -> TorchLaboratory | None:
        if request.ruined is not None:
            return self.earlier_laboratory(request.ruined)
        return self.laboratory(with_update=False, unscaled=request.unscaled)

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

    @contextlib.contextmanager
    def _as_of(self, step: int) -> Iterator[None]:
        """Stand in an earlier step for a while, as far as it is kept."""
        before, program = self.step, self._window.program
        self.step = step
        if self._earlier is not None and self._earlier[0] == step:
            self._window.program = self._earlier[1]
        try:
            yield
        finally:
            self.step, self._window.program = before, program

    def _bench(self, program: Program, step: int, **changes: Any) -> TorchLaboratory:
        return TorchLaboratory(
            self.model,
            program,
            step,
            asleep=self.asleep,
            initial=self._initial or None,
            scale=self.scale.tensor,
            meta=self._described(),
            company=self.ranks.company,
            **changes,
        )

    def observed(self) -> Trace:
        """Return what can be looked at of the present step without running it."""
        losses = self._window.losses or self._window.candidates
        gradients = self._gradients()
        return observed(
            self.step,
            self.model,
            self.program,
            losses,
            gradients,
            self._bad_checks,
            **self._described(),
        )

    def _begin(self) -> None:
        """Look around once, when training begins."""
        self._initial = copy_of_parameters(self.model)
        self._window.trains(self.model.parameters())
        self._fleet.look_around(self.model)
        self.scale.look_around()
        self._overflow = overflow_flag(self.model, listening=True)
        alone = self.ranks.gather(self.model, self.hooks.models)
        if alone:
            self.observe(note=alone)
        blind = untrusted_reductions(self.model)
        if blind:
            self.observe(note=notice("notice.reductions_blind", names=", ".join(blind)))
