# SPDX-License-Identifier: Apache-2.0
"""What is done about a step that broke, or that an audit looks at."""

from __future__ import annotations

import dataclasses
import weakref
from typing import TYPE_CHECKING, Any

from numcheck.diagnose import diagnose, investigate, sampled
from numcheck.diagnose.classes import classes_of
from numcheck.diagnose.finding import Advice, Evidence
from numcheck.diagnose.incident import Incident
from numcheck.diagnose.laboratory import CannotRunError
from numcheck.record.notice import notice
from numcheck.record.trace import Event
from numcheck.report.experimenting import experimenting
from numcheck_jax import observed
from numcheck_jax.batch_watch import batch_of
from numcheck_jax.checked import from_checks
from numcheck_jax.feedback import Feedback
from numcheck_jax.identity import lane_detail
from numcheck_jax.laboratory import JaxLaboratory
from numcheck_jax.roles import assign
from numcheck_jax.shares import call_share, is_shared, result_share
from numcheck_jax.tracing import program_of
from numcheck_jax.unplaced import unplaced
from numcheck_jax.unreplayed import guessed_roles, outline, together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numcheck.datacheck.watching import BatchWatch
    from numcheck.diagnose.finding import Finding
    from numcheck.record.trace import Trace
    from numcheck_jax.capture import Call
    from numcheck_jax.monitor import JaxMonitor
    from numcheck_jax.results import Key, Result
    from numcheck_jax.roles import Roles
    from numcheck_jax.tracing import Program

__all__ = ["Inquiry"]

_ELSEWHERE = "refusal.born_elsewhere"
_KEPT_BYTES = 32 * 2**20
"""Most that is held of the first step's state, for the whole run."""


class Inquiry:
    """Asks why, for one monitor.

    Attributes:
        feedback: which arguments the steps hand on to one another.
        benign: places whose NaN or Inf turned out to do no harm.
        roles: what the values of a step are to the user; None before the first trace.
        measured: what the step itself measured of all its operators, where it did.
    """

    def __init__(self, monitor: JaxMonitor, loss: Callable[[Any], Any] | None) -> None:
        """Work for `monitor`; `loss` picks the loss out of an output."""
        self._monitor = weakref.proxy(monitor)  # or the two would keep each other
        self._loss = loss
        self._initial: Mapping[int, Any] | None = None
        self._is_beside = False
        self._last: tuple[Finding, ...] = ()
        self.feedback = Feedback()
        self.benign: set[Key] = set()
        self.roles: Roles | None = None
        self.measured: Trace | None = None

    def audit(self, call: Call, result: Result, held: Mapping[Key, float]) -> None:
        """Run a healthy step beside its float32 lift and deliver what that shows."""
        was_unknown = self.roles is None
        try:
            laboratory = self._laboratory(call, result, held)
            trace, departures = laboratory.beside_float32()
        except CannotRunError as why:
            note = notice("notice.not_audited", why=why)
            self._monitor.observe(call.step, note=note)
            return
        self._is_beside = True
        if was_unknown:
            self._monitor.observe(call.step, **observed.scalars(laboratory.roles, held))
        found = sampled(trace.at(call.step, call.rank))
        self._monitor.events.extend(Event(k, call.step, v) for k, v in found.items())
        incident = self._incident(call, trace, laboratory.roles)
        incident = dataclasses.replace(incident, departures=departures)
        self._monitor.keep(incident)
        findings = diagnose(incident)
        if any(f.severity == "error" for f in findings):
            findings = _confirmed(findings, incident, laboratory)
        self._monitor.deliver(findings)

    def look_at_batch(
        self, call: Call, result: Result, held: Mapping[Key, float], watch: BatchWatch
    ) -> None:
        """Check the batch of a healthy step, and deliver what is new about it."""
        if self.roles is None:
            try:
                self._laboratory(call, result, held)
            except CannotRunError as why:
                self._monitor.observe(note=notice("notice.batches_unchecked", why=why))
                return
        known = [i.settings.get("classes") for i in self._monitor.incidents]
        classes = next((c for c in reversed(known) if isinstance(c, int)), None)
        batch = batch_of(call, self.roles) if self.roles is not None else {}
        self._monitor.deliver(watch.look(call.step, batch, classes))

    def trip(
        self,
        call: Call,
        result: Result,
        broken: Sequence[Key],
        held: Mapping[Key, float],
    ) -> bool:
        """Find out why a step handed back NaN or Inf; return whether that is harm."""
        # Whoever is stopped by an error and goes on may meet another one.
        goes_on = self._monitor.options.on_error != "raise"
        if goes_on and self._last and self._monitor.is_known(self._last[0]):
            return self._deliver(self._last)
        try:
            laboratory = self._laboratory(call, result, held, broken)
        except CannotRunError as why:
            roles = guessed_roles(call, result, self.loss_key(result))
            return self._deliver(self._unreplayed(call, result, roles, held, str(why)))
        if not laboratory.harmed:
            return False
        try:
            trace = laboratory.replay()
        except CannotRunError as why:
            roles = laboratory.roles
            return self._deliver(self._unreplayed(call, result, roles, held, str(why)))
        reproduced = laboratory.reproduced
        if not reproduced and laboratory.is_share:
            roles = laboratory.roles
            return self._deliver(
                self._unreplayed(call, result, roles, held, _ELSEWHERE)
            )
        if not reproduced:
            trace = self._as_compiled(laboratory, trace)
        incident = self._incident(call, trace, laboratory.roles)
        incident = dataclasses.replace(incident, reproduced=reproduced)
        self._monitor.keep(incident)
        with experimenting() as progress:
            found = investigate(
                incident,
                laboratory,
                experiments=self._monitor.options.experiments,
                progress=progress,
            )
        self._monitor.keep(found.incident)
        if not any(f.severity == "error" for f in found.findings):
            self.benign.update(broken)
        return self._deliver(_in_lane(found.findings, call))

    def checked(self, call: Call, result: Result, held: Mapping[Key, float]) -> bool:
        """Find out why a check by hand failed; return whether one did in this step."""
        try:
            laboratory = self._laboratory(call, result, held)
            trace = from_checks(laboratory.replay(), call.step, call.rank)
        except CannotRunError:
            return False
        if trace is None:
            return False
        incident = self._incident(call, trace, laboratory.roles)
        self._monitor.keep(incident)
        return self._deliver(diagnose(incident))

    def _as_compiled(self, laboratory: JaxLaboratory, trace: Trace) -> Trace:
        """Return what the compiled program says where op by op nothing broke."""
        try:
            compiled = laboratory.replay_compiled()
        except CannotRunError as why:
            note = notice("notice.not_recompiled", why=why)
            self._monitor.observe(laboratory.call.step, note=note)
            return trace
        return compiled if laboratory.reproduced else trace

    def _laboratory(
        self,
        call: Call,
        result: Result,
        held: Mapping[Key, float],
        broken: Sequence[Key] = (),
    ) -> JaxLaboratory:
        """Return the step on the bench, and learn the roles of its values."""
        is_share = is_shared((*call.leaves, *result.leaves))
        call, result = call_share(call), result_share(result)
        program = _share_of_program(call) if is_share else program_of(call)
        roles = self.roles = assign(call, program, self.loss_key(result))
        self._keep_initial(call, roles)
        return JaxLaboratory(
            call,
            program,
            roles,
            seen=observed.seen(result, held),
            harmed=observed.were_finite(
                call, roles, broken, self._unrelated(call, roles)
            ),
            initial=self._initial_state(roles),
            # What all processes made together measures nobody's share of it.
            results={} if is_share else dict(result.items()),
            beside=self._is_beside,
            is_share=is_share,
        )

    def _keep_initial(self, call: Call, roles: Roles) -> None:
        """Hold the first step's state where it is small: drift is told by it."""
        if self._initial is not None or not self._monitor.is_first(call):
            return
        state = {
            i: call.leaves[i]
            for i, role in roles.sources.items()
            if role in ("parameter", "state")
        }
        if sum(getattr(x, "nbytes", 0) for x in state.values()) <= _KEPT_BYTES:
            self._initial = state

    def _initial_state(self, roles: Roles) -> Mapping[int, Any] | None:
        """Return what is held of the first step's state, as far as it is state."""
        if self._initial is None:
            return None
        unfed = roles.presumed - self.feedback.positions
        return {i: x for i, x in self._initial.items() if i not in unfed}

    def _unrelated(self, call: Call, roles: Roles) -> frozenset[int]:
        """Return the arguments that are no state, as far as the calls so far show."""
        if self._monitor.is_first(call):
            return frozenset()
        return roles.presumed - self.feedback.positions

    def _incident(self, call: Call, trace: Trace, roles: Roles) -> Incident:
        settings = observed.settings(call, roles)
        classes = classes_of(trace.at(call.step, call.rank))
        if classes is not None:
            settings["classes"] = classes
        return Incident(
            trace,
            call.step,
            rank=call.rank,
            history=tuple(self._monitor.events),
            settings=settings,
        )

    def _unreplayed(
        self,
        call: Call,
        result: Result,
        roles: Roles,
        held: Mapping[Key, float],
        why: str,
    ) -> tuple[Finding, ...]:
        """Return findings about a step that cannot be run again.

        They come from what the step measured itself, else from its ends alone. A fault
        of another process's share is explained there, by a replay.
        """
        call, result = call_share(call), result_share(result)
        trace = None if why == _ELSEWHERE else self.measured
        if trace is None or (call.step, call.rank) not in trace.summaries:
            trace = outline(call, result, roles, observed.seen(result, held))
        incident = self._incident(call, trace, roles)
        self._monitor.keep(incident)
        note = Evidence("not_run", {"name": "replay", "why": why})
        kept = (Advice("keep_arguments", "certain"),) if call.donated else ()
        return tuple(
            dataclasses.replace(f, evidence=(*f.evidence, note), help=(*kept, *f.help))
            for f in together(diagnose(incident))
        )

    def _deliver(self, findings: tuple[Finding, ...]) -> bool:
        """Hand findings to the monitor; return whether one of them is an error."""
        self._last = findings
        self._monitor.deliver(findings)
        return any(f.severity == "error" for f in findings)

    def loss_key(self, result: Result) -> Key | None:
        """Return where the user's `loss` finds the loss; None when it is no leaf."""
        return None if self._loss is None else result.find(self._loss)


def _in_lane(findings: tuple[Finding, ...], call: Call) -> tuple[Finding, ...]:
    """Return the findings with the lane of the `vmap` that the call was part of."""
    if call.lane is None:
        return findings
    lane = lane_detail(call.lane)
    return tuple(
        dataclasses.replace(
            f, site=dataclasses.replace(f.site, detail=(*f.site.detail, *lane))
        )
        for f in findings
    )


def _share_of_program(call: Call) -> Program:
    """Return the program of a call on one process's share of its arrays.

    Raises:
        CannotRunError: it does not work on a share, e.g. of a split weight.
    """
    try:
        program = program_of(call)
        return dataclasses.replace(program, closed=unplaced(program.closed))
    except CannotRunError as why:
        raise CannotRunError(notice("refusal.other_processes", why=why)) from why


def _confirmed(
    findings: tuple[Finding, ...],
    incident: Incident,
    laboratory: JaxLaboratory,
) -> tuple[Finding, ...]:
    """Return findings of an audit, those that the program as compiled shows.

    A compiler may simplify what op by op overflows. Such a fault is latent: it is kept
    as a note, since nothing that the user got is harmed.
    """
    real = laboratory.departures()
    departures = {**(incident.departures or {}), **real}
    seen = diagnose(dataclasses.replace(incident, departures=departures))
    shown = {(f.id, f.site.index) for f in seen}
    latent = tuple(
        dataclasses.replace(f, severity="note", reproduced=False)
        for f in findings
        if (f.id, f.site.index) not in shown
    )
    return (*seen, *latent)
