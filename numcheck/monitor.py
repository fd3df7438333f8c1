# SPDX-License-Identifier: Apache-2.0
"""The framework-neutral half of a watched program: its findings and its policy.

An adapter subclasses `Monitor`, calls `observe` once a step with the scalars it
read anyway, and hands findings to `deliver`, which does what the user asked for.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from typing import TYPE_CHECKING, ClassVar, Self

from numcheck.diagnose.growth_watch import EXPLODES, FOLLOWED, GrowthWatch
from numcheck.errors import NonFiniteError, RunFolderError
from numcheck.known_findings import KnownFindings
from numcheck.record.history import MOST_SUMMARIES, TraceHistory
from numcheck.record.trace import Event
from numcheck.user_frame import warn_at_user

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from numcheck.diagnose.finding import Finding
    from numcheck.diagnose.incident import Incident, Setting
    from numcheck.options import Options
    from numcheck.record.run_folder import RunWriter
    from numcheck.record.trace import Trace

__all__ = ["Monitor", "NumcheckWarning"]

MOST_INCIDENTS = 8
"""Failing or audited steps held in memory with everything known of them."""
MOST_EVENTS = 60_000
"""Scalars held in memory: those of about the last ten thousand steps."""
_MOST_NOTED = 256


class NumcheckWarning(UserWarning):
    """A finding, or trouble inside numcheck, reported without stopping the program."""


class Monitor:
    """What numcheck knows about one watched program.

    Use it as a context manager, or call `close` at the end of the run: a failure of
    the very last step may still be pending.
    """

    # A list, for setting an attribute of a class has the interpreter forget what it
    # learned about every subclass, twice a step.
    _held: ClassVar[list[tuple[Monitor, tuple[object, ...]]]] = []

    def __init__(self, options: Options, *, rank: int = 0, **meta: object) -> None:
        """Start watching under the given options.

        Args:
            options: how to watch.
            rank: this process among those that run the program.
            **meta: what the run folder's meta.json says of the program.

        Raises:
            RunFolderError: ``options.run`` cannot be written to.
        """
        self.options = options
        self.rank = rank
        self.step = 0
        self._events: list[Event] = []
        self._noted: list[tuple[int, dict[str, float | str | None]]] = []
        self._meta = meta
        self._history = TraceHistory(MOST_SUMMARIES)
        self._incidents: list[Incident] = []
        self._run = _open_run(options, rank, meta)
        self._kept_events = 0
        self._known = KnownFindings()
        self._stopped_at = -1
        self._closed = False
        self._growth = GrowthWatch()
        self._may_audit = options.wants_audits

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings so far, the most severe first, then in the order they came."""
        return self._known.in_order

    @property
    def events(self) -> list[Event]:
        """Scalars and notes, in the order they came."""
        if self._noted:
            noted, self._noted = self._noted, []
            for step, scalars in noted:
                known = [(n, v) for n, v in scalars.items() if v is not None]
                self._events += [Event(name, step, value) for name, value in known]
            while len(self._events) > MOST_EVENTS:
                self._forget_old_events()
        return self._events

    @property
    def trace(self) -> Trace | None:
        """The trace of the recorded steps; None while nothing was recorded."""
        return self._history.trace

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """The last failing and audited steps, with everything known of them."""
        return tuple(self._incidents)

    @property
    def run_path(self) -> Path | None:
        """The attempt of the run folder that this run writes; None without ``run=``."""
        return None if self._run is None else self._run.path

    def record(self, trace: Trace) -> None:
        """Keep the trace of a step, in memory and in the run folder."""
        places = self._history.add(trace)
        if self._run is None:
            return
        with self._writing():
            self._run.trace.sites(self._history.sites)
            for (step, _), held in trace.summaries.items():
                here = {places[i]: summary for i, summary in held.items()}
                self._run.trace.step(step, here)
        self._flush_events()

    def keep(self, incident: Incident) -> None:
        """Keep everything known of a step, so that it can be diagnosed again.

        Call it as soon as the step is replayed, and again when the experiments are
        done: a crash in between costs the experiments alone.
        """
        self._history.add(incident.trace)
        kept = self._incidents
        is_new = not kept or kept[-1].trace is not incident.trace
        self._incidents = [*(kept if is_new else kept[:-1]), incident][-MOST_INCIDENTS:]
        if self._run is not None:
            from numcheck.diagnose.incident_json import incident_to_json

            known = incident_to_json(incident)
            with self._writing():
                if is_new:
                    self._run.incident(incident.step, incident.trace, known)
                else:
                    self._run.complete(known)
            self._flush_events()

    def _flush_events(self) -> None:
        if self._run is None:
            return
        with self._writing():
            self._run.trace.events(self.events[self._kept_events :])
            self._kept_events = len(self.events)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Go on where the run folder cannot be written: a finding matters more."""
        try:
            yield
        except (OSError, RunFolderError):
            self.fault("fault.run_folder")

    def observe(self, at: int | None = None, /, **scalars: float | str | None) -> None:
        """Note the scalars (``loss``…) of the step `at`, else of the current one."""
        for name in FOLLOWED:
            value = scalars.get(name)
            if value is not None:
                self._growth.take(name, value)
        # Events are made of them when somebody asks, or here from time to time.
        self._noted.append((self.step if at is None else at, scalars))
        if len(self._noted) >= _MOST_NOTED:
            _ = self.events

    def _forget_old_events(self) -> None:
        """Drop the older half from memory; the run folder keeps all of them."""
        self._flush_events()
        dropped = len(self._events) // 2
        del self._events[:dropped]
        self._kept_events = max(0, self._kept_events - dropped)

    def hold(self, *subjects: object) -> None:
        """Stay alive, with `subjects`, until `release`: a step is not looked at yet.

        A loop that returns right after a bad loss takes the model and its monitor
        with it, and the NaN would be lost. One such monitor is held, the newest, so
        that this never keeps more than one model alive.
        """
        Monitor._held[:] = [(self, subjects)]

    def release(self) -> None:
        """Say that nothing is left to look at."""
        if Monitor._held and Monitor._held[0][0] is self:
            Monitor._held.clear()

    def claim_growth_audit(self) -> bool:
        """Whether to audit this step for growing loss or gradients; counts that it is.

        Under ``audit_first=False`` without ``every`` the user wants no audits at all.
        """
        return self._may_audit and self._growth.wants_audit(self.step)

    def heed_growth(self) -> None:
        """Deliver a warning where loss or gradients multiply step after step."""
        if self._growth.factor < EXPLODES:
            return
        from numcheck.diagnose.dynamics.trends import exploding

        known = self.known_settings()
        self.deliver(exploding(self.events, self.step, self.rank, known))

    def known_settings(self) -> Mapping[str, Setting]:
        """Return what an adapter knows of the optimizer; nothing by itself."""
        return {}

    def rearm(self) -> None:
        """Say that a step was healthy: an origin seen before is news again."""
        self._known.rearm()

    @property
    def is_failing(self) -> bool:
        """Whether a failure was told and no healthy step came since."""
        return self._known.is_failing

    def is_known(self, finding: Finding) -> bool:
        """Whether this origin failed as badly and no healthy step came since."""
        return self._known.is_known(finding)

    def deliver(self, findings: Iterable[Finding]) -> None:
        """Keep the findings and do what the user asked for on errors.

        What is known already is counted and not told again. But who is to be stopped
        is stopped at each step: nothing else keeps the update from being made.

        Raises:
            NonFiniteError: under ``on_error="raise"``, when one of them is an error.
        """
        given = tuple(findings)
        news = self._known.take(given)
        policy = self.options.on_error
        if policy == "raise":
            self._stop(f for f in given if f in news or f.step > self._stopped_at)
        loud = [f for f in news if f.severity != "note"]
        if loud and policy != "record":
            from numcheck.report.raised import raised_text

            warn_at_user(raised_text(loud), NumcheckWarning)

    def _stop(self, findings: Iterable[Finding]) -> None:
        errors = tuple(f for f in findings if f.severity == "error")
        if errors:
            from numcheck.report.raised import raised_text

            self._stopped_at = max(f.step for f in errors)
            raise NonFiniteError(errors, raised_text(errors))

    def fault(self, where: str) -> None:
        """Record an error inside numcheck itself, once for each place, loudly.

        Call it from an ``except`` block. Training goes on.

        Args:
            where: the key ``fault.…`` of a text that names the place, or its name.
        """
        text = traceback.format_exc(limit=-6)
        if any(e.name == "fault" and e.value == where for e in self.events):
            return
        self.events.append(Event("fault", self.step, where))
        self.events.append(Event("fault_traceback", self.step, text))
        from numcheck.report.raised import fault_text

        message = f"{fault_text(where)}\n{text}"
        print(message, file=sys.stderr)  # noqa: T201 - the last resort must not depend on logging

    def report(
        self, path: str | os.PathLike[str] | None = None, lang: str | None = None
    ) -> str:
        """Return the report as text, and write it as a page when given a path.

        Args:
            path: where to write; ``.html``, ``.json`` or ``.sarif`` by its ending.
            lang: ``en`` or ``zh``; by default NUMCHECK_LANG, else the locale.

        Returns:
            The terminal report of all findings.
        """
        from numcheck.report.content import content_of
        from numcheck.report.writing import write_content

        content = content_of(
            self.findings,
            self._history,
            self._incidents,
            events=self.events,
            meta=self._meta,
        )
        return write_content(content, path, lang)

    def close(self) -> None:
        """Deliver what is still pending and stop watching. May be called twice."""
        self._closed = True
        self.release()
        self._flush_events()

    def __enter__(self) -> Self:
        """Return the monitor itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Close; an error of the block itself is not replaced by a finding."""
        if error is None:
            self.close()
            return
        try:
            self.close()
        except NonFiniteError as pending:
            error.add_note(str(pending))


def _open_run(options: Options, rank: int, meta: dict[str, object]) -> RunWriter | None:
    if options.run is None:
        return None
    from numcheck.record.run_folder import RunWriter

    chosen = {"level": options.level, "every": options.every}
    return RunWriter(options.run, rank=rank, meta={"options": chosen, **meta})
