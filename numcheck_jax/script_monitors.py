# SPDX-License-Identifier: Apache-2.0
"""The monitors of a script's functions; loads no framework before one is watched.

A monitor reads a step's flag at the next call of its own function. A script has many
functions, and some are called once: what they were given and gave must not be held
until the end, nor must functions that the script itself has dropped.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from numcheck.errors import NonFiniteError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.monitor import Monitor
    from numcheck.options import Options
    from numcheck_jax.instrumentation import Watched
    from numcheck_jax.monitor import JaxMonitor

__all__ = ["ScriptMonitors"]

_MOST_ORPHANS: Final = 8
"""Monitors without a finding that are kept, for the report, when their function died:
it still says what was watched, of a script that makes a new function at every step."""


class ScriptMonitors:
    """One monitor for each function that was called, while it matters."""

    def __init__(self, options: Options) -> None:
        """Watch functions under the given options."""
        self.listed: list[Monitor] = []
        self._options = options
        self._late: list[JaxMonitor] = []
        self._died: deque[JaxMonitor] = deque()
        self._orphans: deque[JaxMonitor] = deque()

    def watch(self, owner: object, function: Callable[..., Any]) -> Watched:
        """Return a function watched for as long as its owner lives."""
        from numcheck_jax.instrumentation import Watched
        from numcheck_jax.monitor import JaxMonitor

        monitor = JaxMonitor(function, self._options)
        self.listed.append(monitor)
        weakref.finalize(owner, self._died.append, monitor).atexit = False
        return Watched(function, monitor)

    def called(self, monitor: JaxMonitor) -> None:
        """Say that a function is about to run: its step will wait for its flag.

        Raises:
            NonFiniteError: a step of another function broke, under
                ``on_error="raise"``.
        """
        for other in [m for m in self._late if m is not monitor]:
            self._late.remove(other)
            if not other.settle_ready():
                self._late.append(other)
        if monitor not in self._late:
            self._late.append(monitor)
        self._drop_orphans()

    def _drop_orphans(self) -> None:
        """Forget the older functions that died without a finding."""
        while self._died:
            self._orphans.append(self._died.popleft())
        while len(self._orphans) > _MOST_ORPHANS:
            monitor = self._orphans.popleft()
            monitor.close()
            if not monitor.findings:
                self.listed.remove(monitor)

    def close(self) -> None:
        """Read what is left and stop watching."""
        for monitor in self.listed:
            with contextlib.suppress(NonFiniteError):
                monitor.close()
