# SPDX-License-Identifier: Apache-2.0
"""The watch over one function: what happens before, after and between its calls."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import math
import sys
import weakref
from typing import TYPE_CHECKING, Any

import jax

from numcheck.errors import NonFiniteError
from numcheck.monitor import Monitor
from numcheck.record.trace import Event
from numcheck_jax import flax_nnx
from numcheck_jax.boundary import BOUNDARY
from numcheck_jax.capture import capture, is_traced, kept_alive
from numcheck_jax.ingraph import enter, leave, reconstruct
from numcheck_jax.inquiry import Inquiry
from numcheck_jax.observed import scalars
from numcheck_jax.results import result_of
from numcheck_jax.sentinel import is_bad, is_watchable, launch, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from numcheck.diagnose.finding import Finding
    from numcheck.monitor import Options
    from numcheck_jax.capture import Call
    from numcheck_jax.ingraph import Report
    from numcheck_jax.results import Key, Result
    from numcheck_jax.sentinel import Flag

__all__ = ["JaxMonitor", "Pending"]


@dataclasses.dataclass(frozen=True, slots=True)
class Pending:
    """A step that ran and whose flag was not read yet.

    Attributes:
        call: the call, with its arguments as they were.
        result: what the user got.
        keys: places of the float values in it, in the order of the flag's words.
        flag: the check, on its way.
    """

    call: Call
    result: Result
    keys: tuple[Key, ...]
    flag: Flag


def _say_pending(ref: weakref.ref[JaxMonitor]) -> None:
    """Tell at exit what the last step of an unclosed monitor still holds."""
    monitor = ref()
    if monitor is None:
        return
    try:
        monitor.close()
    except NonFiniteError as error:
        print(error, file=sys.stderr)  # noqa: T201 - nobody is left to catch it


_NOTICE = (
    "numcheck: a NaN or Inf left {!r} inside a compiled program; call close() on its "
    "monitor for the diagnosis"
)


class JaxMonitor(Monitor):
    """Watches one JAX function."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: Options,
        *,
        lag: int = 1,
        loss: Callable[[Any], Any] | None = None,
    ) -> None:
        """Watch `function`.

        Args:
            function: what the user handed over.
            options: how to watch.
            lag: read a step's flag this many steps later, 0 or 1.
            loss: picks the loss out of what the function returns.
        """
        super().__init__(options)
        self.function = function
        self._lag = 0 if options.on_error == "skip" else lag
        self._pending: Pending | None = None
        self._calls = 0
        self._inquiry = Inquiry(self, loss)
        self._reports: list[Report] = []
        self._checks: list[Finding] = []
        atexit.register(_say_pending, weakref.ref(self))

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run the user's function and watch what it hands back.

        Raises:
            NonFiniteError: this step or the one before broke, under
                ``on_error="raise"``.
        """
        call = None if self._closed else self._before(args, kwargs)
        if call is None:
            return self.function(*args, **kwargs)
        if is_traced(call.given):
            return self._traced(call)
        with self._named(call):
            out = self.function(*args, **kwargs)
        return self._after(call, out)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings so far; waits for the last step unless errors are raised."""
        if self.options.on_error != "raise":
            self._settle_pending()
            self._read_reports()
        return super().findings

    def take(self, findings: tuple[Finding, ...]) -> None:
        """Keep what a check by hand found; called from any thread."""
        self._checks.extend(findings)

    def receive(self, report: Report) -> None:
        """Keep what the check inside a program found; called from any thread."""
        if not self._reports:
            print(_NOTICE.format(self.function), file=sys.stderr)  # noqa: T201 - nothing may be raised where programs call back
        self._reports.append(report)

    def close(self) -> None:
        """Read the last step's flag, deliver what it says, and stop watching."""
        if self._closed:
            return
        super().close()
        BOUNDARY.shut(self)
        self._settle_pending()
        self._read_reports()

    def _before(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call | None:
        if self._pending is not None and self._pending.flag.is_ready:
            self._settle_pending()
        self._read_reports()
        BOUNDARY.open(self)
        call: Call | None = None
        with self._guarded("the capture of a call"):
            call = capture(self.function, args, kwargs, self.step)
            if self._is_due() and not is_traced(call.given):
                call = kept_alive(call)
        return call

    def _traced(self, call: Call) -> Any:
        """Run the function inside somebody's transformation."""
        args, kwargs = call.args, call.kwargs
        with self._guarded("the watch over gradients"):
            args, kwargs = enter(self, call)
        out = self.function(*args, **kwargs)
        with self._guarded("the watch over outputs"):
            return leave(self, call, out)
        return out

    @contextlib.contextmanager
    def _named(self, call: Call) -> Iterator[None]:
        """Give modules names while the function may be traced for the first time."""
        if self._calls:
            yield
            return
        with flax_nnx.scopes((call.args, call.kwargs)):
            yield

    def _after(self, call: Call, out: Any) -> Any:
        due = self._is_due()
        self._calls += 1
        self.step += 1
        earlier, self._pending = self._pending, None
        with self._guarded("the check of a step"):
            self._pending = self._launch(call, out)
        if earlier is not None:
            self._settle(earlier)
        if due or self._lag == 0:
            self._settle_pending(audit=due)
        return out

    def _launch(self, call: Call, out: Any) -> Pending:
        after = jax.tree.leaves((call.args, dict(call.kwargs)))
        result = result_of(out, call.given, after)
        watched = [(k, x) for k, x in result.items() if is_watchable(x)]
        flag = launch([x for _, x in watched])
        return Pending(call, result, tuple(k for k, _ in watched), flag)

    def is_first(self, call: Call) -> bool:
        """Whether a call is the first that was watched."""
        return call.step == self.step - self._calls

    def _is_due(self) -> bool:
        """Whether this step is audited."""
        if self._calls == 0 and self.options.audit_first:
            return True
        every = self.options.every
        return every is not None and self.step % every == 0

    def _settle_pending(self, *, audit: bool = False) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            self._settle(pending, audit=audit)

    def _settle(self, pending: Pending, *, audit: bool = False) -> None:
        """Read a step's flag and act on it.

        Args:
            pending: the step.
            audit: look at it more closely should it be healthy.
        """
        with self._guarded("the diagnosis of a step"):
            words = pending.flag.read()
            held = dict(zip(pending.keys, values(words).tolist(), strict=True))
            bad = zip(pending.keys, is_bad(words).tolist(), strict=True)
            broken = [k for k, is_broken in bad if is_broken]
            self._note(pending.call.step, held)
            broken = [k for k in broken if k not in self._inquiry.benign]
            call, result = pending.call, pending.result
            checks, self._checks = self._checks, []
            if broken and self._inquiry.trip(call, result, broken, held):
                return
            if checks:
                if not self._inquiry.checked(call, result, held):
                    self._checks = [*checks, *self._checks]
                return
            self.rearm()
            if audit:
                self._inquiry.audit(call, result, held)

    def _read_reports(self) -> None:
        """Act on what programs found since Python had the word last."""
        reports, self._reports = self._reports, []
        first = {(id(r.place), r.backward): r for r in reversed(reports)}
        for report in reversed(first.values()):
            with self._guarded("the diagnosis of a traced step"):
                if (found := reconstruct(report)) is not None:
                    call, result, held = found
                    broken = [k for k, v in held.items() if not math.isfinite(v)]
                    self._inquiry.trip(call, result, broken, held)
        checks, self._checks = tuple(self._checks), []
        self.deliver(checks)

    def _note(self, step: int, held: Mapping[Key, float]) -> None:
        """Keep the scalars that the flag held, once their roles are known."""
        if (roles := self._inquiry.roles) is not None:
            found = scalars(roles, held)
            self.events.extend(Event(name, step, v) for name, v in found.items())

    def _guarded(self, where: str) -> _Guard:
        """Keep an error of numcheck's own from the user's program."""
        return _Guard(self, where)


@dataclasses.dataclass(frozen=True, slots=True)
class _Guard:
    """Records what fails inside its block and goes on; findings pass."""

    monitor: Monitor
    where: str

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        if isinstance(error, NonFiniteError | Warning):
            return False
        self.monitor.fault(self.where)
        return True
