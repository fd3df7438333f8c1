# SPDX-License-Identifier: Apache-2.0
"""Where reports of running programs wait for Python.

A compiled program reports from a thread of the runtime, where nothing may be raised
to the user and nothing may be run. Reports wait in the mailbox of the monitor whose
step is under way, or here when there is none.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.diagnose.finding import Finding

__all__ = ["BOUNDARY", "Boundary", "Mailbox"]


class Mailbox(Protocol):
    """Takes findings from any thread; a monitor is one."""

    @property
    def is_open(self) -> bool:
        """Whether anybody will read it."""
        ...

    @property
    def is_in_use(self) -> bool:
        """Whether anybody can still call what it watches."""
        ...

    def take(self, findings: tuple[Finding, ...]) -> None:
        """Keep findings until Python has the word again."""
        ...


class Boundary:
    """The open mailboxes of this process, and the findings that belong to none."""

    def __init__(self) -> None:
        """Start without any."""
        self._lock = threading.Lock()
        self._open: list[weakref.ref[Mailbox]] = []
        self._waiting: list[Finding] = []
        self._here = threading.local()

    def open(self, mailbox: Mailbox) -> None:
        """Say that a step of this mailbox's program is under way."""
        with self._lock:
            self._forget(mailbox)
            self._open.append(weakref.ref(mailbox))

    def shut(self, mailbox: Mailbox) -> None:
        """Say that no step of it is under way any more."""
        with self._lock:
            self._forget(mailbox)

    @contextlib.contextmanager
    def muted(self) -> Iterator[None]:
        """Hear nothing of this thread: a step is run again, and was told already."""
        before = self.is_muted
        self._here.muted = True
        try:
            yield
        finally:
            self._here.muted = before

    @property
    def is_muted(self) -> bool:
        """Whether reports from this thread are to be dropped."""
        return getattr(self._here, "muted", False)

    @contextlib.contextmanager
    def tracing(self, mailbox: Mailbox) -> Iterator[None]:
        """Say that the block traces this mailbox's function into a program."""
        before = self.tracer
        self._here.tracer = weakref.ref(mailbox)
        try:
            yield
        finally:
            self._here.tracer = before

    @property
    def tracer(self) -> weakref.ref[Mailbox] | None:
        """The mailbox whose function is being traced; None outside."""
        return getattr(self._here, "tracer", None)

    def post(
        self, findings: tuple[Finding, ...], owner: weakref.ref[Mailbox] | None = None
    ) -> bool:
        """Hand findings to their owner, else to the step under way.

        Args:
            findings: what was found.
            owner: the mailbox that was tracing when the check was put there.

        Returns:
            False when nobody takes them.
        """
        with self._lock:
            opened = [box for ref in self._open if (box := ref())]
        # A function that was dropped after its last step takes no other's reports.
        boxes = [box for box in opened if box.is_in_use]
        if owner is not None and (own := owner()) is not None:
            boxes.append(own)
        boxes = [box for box in boxes if box.is_open]
        if boxes:
            boxes[-1].take(findings)
        return bool(boxes)

    def wait(self, findings: tuple[Finding, ...]) -> None:
        """Keep findings that belong to no monitor."""
        with self._lock:
            self._waiting.extend(findings)

    def collect(self) -> tuple[Finding, ...]:
        """Return the findings that belong to no monitor, and forget them."""
        with self._lock:
            found, self._waiting = tuple(self._waiting), []
        return found

    def _forget(self, mailbox: Mailbox) -> None:
        self._open = [r for r in self._open if r() not in (None, mailbox)]


BOUNDARY = Boundary()
"""One a process, as the runtime's threads are: a report carries no caller."""
