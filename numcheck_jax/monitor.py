# SPDX-License-Identifier: Apache-2.0
"""The watch over one function: what happens before, after and between its calls."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

import jax

from numcheck.at_exit import close_at_exit
from numcheck.datacheck.watching import BatchWatch
from numcheck.diagnose.laboratory import CannotRunError
from numcheck.errors import NonFiniteError
from numcheck.monitor import Monitor
from numcheck.record.notice import notice
from numcheck.record.trace import Event
from numcheck_jax.boundary import BOUNDARY
from numcheck_jax.capture import capture, is_traced, kept_alive
from numcheck_jax.execution import Execution, Plan, named
from numcheck_jax.guard import Guard
from numcheck_jax.ingraph import enter, leave, reconstruct
from numcheck_jax.inquiry import Inquiry
from numcheck_jax.kept_memory import is_too_much
from numcheck_jax.mail import Mail
from numcheck_jax.notices import LET_GO, NOTHING_SAVED, TRACED
from numcheck_jax.observed import recorded, scalars
from numcheck_jax.pending import launched
from numcheck_jax.refusal import check_leaves
from numcheck_jax.saving import Saving
from numcheck_jax.sentinel import is_bad, values
from numcheck_jax.shares import own_rank
from numcheck_jax.skipping import without_update
from numcheck_jax.small_donations import SmallDonations
from numcheck_jax.standing_still import StandingStill

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numcheck.diagnose.finding import Finding
    from numcheck.options import Options
    from numcheck.record.trace import Trace
    from numcheck_jax.capture import Call
    from numcheck_jax.pending import Pending
    from numcheck_jax.results import Key
    from numcheck_jax.substitute import Ran, Substitute

__all__ = ["JaxMonitor"]


class JaxMonitor(Monitor):
    """Watches one JAX function."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: Options,
        *,
        lag: int = 1,
        loss: Callable[[Any], Any] | None = None,
        rollback: bool = False,
        save: str | None = None,
    ) -> None:
        """Watch `function`.

        Args:
            function: what the user handed over.
            options: how to watch.
            lag: read a step's flag this many steps later, 0 or 1.
            loss: picks the loss out of what the function returns.
            rollback: hand back the old state where a step broke.
            save: pattern of the tensors to keep.

        Raises:
            ArgumentError: there is no folder to keep tensors in.
        """
        super().__init__(options, rank=own_rank(), framework="jax", jax=jax.__version__)
        self.function = function
        self._lag = 0 if options.on_error == "skip" else lag
        self._pending: Pending | None = None
        self._calls = 0
        self._watched: weakref.ref[Any] | None = None
        self._inquiry = Inquiry(self, loss)
        self._execution = Execution(options.level, rollback=rollback)
        self._batches = BatchWatch(self.rank) if options.check_data else None
        self._mail = Mail(function)
        self._donations = SmallDonations()
        self._still = StandingStill()
        self._saving: Saving | None = None
        if save is not None:
            every, loss_key = options.every or 1, self._inquiry.loss_key
            self._saving = Saving(save, every, self._run, loss_key)
        self._leave_exit = close_at_exit(self)

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run the user's function and watch what it hands back.

        Raises:
            NonFiniteError: this step or the one before broke, under
                ``on_error="raise"``.
            ArgumentTypeError: the arguments are another framework's.
        """
        with named(first=self._calls == 0):
            call = None if self._closed else self._before(args, kwargs)
            if call is None:
                return self.function(*args, **kwargs)
            if self._calls == 0:
                check_leaves(call.given)
            if is_traced(call.given):
                return self._traced(call)
            plan = self._planned(call)
            out, ran = self._executed(call, plan)
        return self._after(call, out, plan, ran)

    def _executed(self, call: Call, plan: Plan) -> tuple[Any, Ran | None]:
        """Run the function, or what the plan puts in its place or beside it."""
        if plan.in_place and plan.substitute is not None:
            return self._in_place(call, plan.substitute)
        out = self.function(*call.args, **call.kwargs)
        if plan.substitute is not None and not plan.in_place:
            with self._guarded("fault.beside"):
                return out, plan.substitute(call)
        return out, None

    def _in_place(self, call: Call, made: Substitute) -> tuple[Any, Ran | None]:
        """Run a program in the function's place; the function where that fails.

        What fails in both is the user's, as is what cannot be run a second time.
        """
        try:
            ran = made(call)
        except Exception as error:
            has_run = isinstance(error, jax.errors.JaxRuntimeError)
            if call.is_consumed or (has_run and made.has_effects):
                raise
            out = self.function(*call.args, **call.kwargs)
            with self._guarded("fault.in_place"):
                raise
            return out, None
        return ran.out, ran

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings so far; waits for the last step unless errors are raised."""
        if self.options.on_error != "raise":
            self._settle_pending()
            self._read_reports()
        return super().findings

    def is_first(self, call: Call) -> bool:
        """Whether a call is the first that was watched."""
        return call.step == self.step - self._calls

    def close(self) -> None:
        """Read the last step's flag, deliver what it says, and stop watching."""
        if self._closed:
            return
        self._leave_exit()
        super().close()
        self._settle_pending()
        self._read_reports()
        if self._batches is not None:
            self.deliver(self._batches.close())

    def settle_ready(self) -> bool:
        """Act on the last step where its flag has arrived; whether none is left."""
        pending = self._pending
        if pending is not None and pending.flag.is_ready and pending.may_be_told():
            self._settle_pending()
        return self._pending is None

    @property
    def is_open(self) -> bool:
        """Whether reports are still read."""
        return not self._closed

    @property
    def is_in_use(self) -> bool:
        """Whether anybody can still call the watched function."""
        return self._watched is None or self._watched() is not None

    def belongs_to(self, watched: object) -> None:
        """Learn through which object the function is called."""
        self._watched = weakref.ref(watched)

    def take(self, findings: tuple[Finding, ...]) -> None:
        """Keep what a check by hand found; called from any thread."""
        self._mail.take(findings)

    def _before(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call | None:
        self._settle_early(args, kwargs)
        self._read_reports()
        BOUNDARY.open(self)
        call: Call | None = None
        with self._guarded("fault.capture"):
            call = capture(self.function, args, kwargs, self.step, self.rank)
            self._inquiry.feedback.take(call.given)
            due = self._is_due() or self._is_saved()
            if due and not is_traced(call.given):
                call = kept_alive(call)
            elif self._execution.is_plain:
                call = self._donations.spared(call)
        return call

    def _settle_early(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Act on the last step before the next one runs, where nothing is lost by it.

        Of several processes one that raises here would leave the others waiting in
        the next step, so there a broken step waits until that was started.
        """
        pending = self._pending
        if pending is None:
            return
        alone = not jax.distributed.is_initialized()
        if not (alone and pending.flag.is_ready):
            kept = (*pending.call.leaves, *pending.result.leaves)
            if not is_too_much(kept, jax.tree.leaves((args, dict(kwargs)))):
                return
            self._say_once(LET_GO)
        if pending.may_be_told():
            self._settle_pending()

    def _planned(self, call: Call) -> Plan:
        with self._guarded("fault.making"):
            plan = self._execution.plan(call)
            if plan.reason:
                self._say_once(notice("notice.not_measured", why=plan.reason))
            for text in plan.cautions:
                self._say_once(text)
            return plan
        return Plan()

    def _say_once(self, text: str) -> None:
        if not any(e.name == "note" and e.value == text for e in self.events):
            self.observe(note=text)

    def _traced(self, call: Call) -> Any:
        """Run the function inside somebody's transformation."""
        args, kwargs = call.args, call.kwargs
        self._say_once(TRACED)
        with self._guarded("fault.gradients"):
            args, kwargs = enter(self._mail, call)
        with BOUNDARY.tracing(self):
            out = self.function(*args, **kwargs)
        with self._guarded("fault.outputs"):
            return leave(self._mail, call, out)
        return out

    def _after(self, call: Call, out: Any, plan: Plan, ran: Ran | None) -> Any:
        due, is_saved = self._is_due(), self._is_saved()
        self._calls += 1
        self.step += 1
        earlier, self._pending = self._pending, None
        with self._guarded("fault.check"):
            self._donations.learn(call)
            self._pending = launched(call, out, plan, ran)
            self._inquiry.feedback.give(self._pending.result)
            self.hold()
        if is_saved and self._pending is not None:
            self._save(self._pending)
        if earlier is not None:
            self._settle(earlier)
        latest = self._pending
        if latest is None or not (due or self._lag == 0):
            return out
        self._pending = None
        if self._settle(latest, audit=due) and self.options.on_error == "skip":
            with self._guarded("fault.skipping"):
                out = self._skipped(latest, out)
        return out

    def _is_due(self) -> bool:
        """Whether this step is audited."""
        if self._calls == 0 and self.options.audit_first:
            return True
        every = self.options.every
        is_sampled = every is not None and self.step % every == 0
        return is_sampled or self.claim_growth_audit()

    def _is_saved(self) -> bool:
        """Whether tensors of this step are kept."""
        return self._saving is not None and self._saving.is_due(self.step)

    def _save(self, pending: Pending) -> None:
        if self._saving is None:
            return
        with self._guarded("fault.keeping"):
            try:
                found = self._saving.keep(pending.call, pending.result)
            except CannotRunError as why:
                self._say_once(notice("notice.tensors_unkept", why=why))
                return
            if not found:
                self._say_once(NOTHING_SAVED)

    def _settle_pending(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            self._settle(pending)

    def _settle(self, pending: Pending, *, audit: bool = False) -> bool:
        """Read a step's flag and act on it; return whether the step did harm.

        Args:
            pending: the step.
            audit: look at it more closely should it be healthy.
        """
        try:
            return self._settled(pending, audit=audit)
        except NonFiniteError:
            self._pending = None  # nobody gets the results of a step that ran since
            raise
        finally:
            if self._pending is None:
                self.release()
                BOUNDARY.shut(self)

    def _settled(self, pending: Pending, *, audit: bool) -> bool:
        with self._guarded("fault.diagnosis"), jax.core.eval_context():
            table = pending.flag.read()
            held = dict(zip(pending.keys, values(table), strict=True))
            bad = zip(pending.keys, is_bad(table), strict=True)
            broken = [k for k, is_broken in bad if is_broken]
            self._inquiry.measured = self._note(pending, held)
            broken = [k for k in broken if k not in self._inquiry.benign]
            return self._acted(pending, broken, held, audit=audit)
        return False

    def _acted(
        self,
        pending: Pending,
        broken: list[Key],
        held: Mapping[Key, float],
        *,
        audit: bool,
    ) -> bool:
        call, result = pending.call, pending.result
        checks = self._mail.checks()
        if broken and self._inquiry.trip(call, result, broken, held):
            return True
        if checks:
            found = self._inquiry.checked(call, result, held)
            if not found:
                self._mail.take(tuple(checks))
            return found
        if not broken:
            self.rearm()
        roles = self._inquiry.roles if self.options.wants_audits else None
        if self._still.take(call.step, result, held, roles) or audit:
            self._inquiry.audit(call, result, held)
        self.heed_growth()
        if self._batches is not None:
            self._inquiry.look_at_batch(call, result, held, self._batches)
        return False

    def _skipped(self, pending: Pending, out: Any) -> Any:
        """Return what the step gave without its update."""
        roles = self._inquiry.roles
        if roles is None:
            self._say_once("notice.update_kept")
            return out
        self.events.append(Event("skipped", pending.call.step, 1.0))
        return without_update(pending.call, pending.result, roles)

    def _read_reports(self) -> None:
        """Act on what programs found since Python had the word last."""
        for report in self._mail.reports():
            with self._guarded("fault.traced_diagnosis"), jax.core.eval_context():
                if (found := reconstruct(report)) is not None:
                    call, result, held = found
                    broken = [k for k, v in held.items() if not math.isfinite(v)]
                    self._inquiry.trip(call, result, broken, held)
        self.deliver(tuple(self._mail.checks()))

    def _note(self, pending: Pending, held: Mapping[Key, float]) -> Trace | None:
        """Keep the scalars that the flag held, and the statistics of the step.

        Returns:
            The statistics where every operator was measured, else None.
        """
        step = pending.call.step
        if (roles := self._inquiry.roles) is not None:
            self.observe(step, **scalars(roles, held))
        if pending.rows is not None and pending.plan.substitute is not None:
            made = pending.plan.substitute
            trace = recorded(pending.call, made, pending.rows, held)
            self.record(trace)
            return trace if made.measures_all else None
        return None

    def _guarded(self, where: str) -> Guard:
        """Keep an error of numcheck's own from the user's program."""
        return Guard(self, where)
