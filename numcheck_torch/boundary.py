# SPDX-License-Identifier: Apache-2.0
"""Where values checked on a device wait for Python.

Reading a check's answer makes the program wait for the device. A monitor whose step is
under way takes the checks and reads them with its own one transfer; without a monitor
they wait here for the next check.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import torch

from numcheck.measure.summary import Summary
from numcheck.record.trace import TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numcheck.diagnose.finding import Finding
    from numcheck.record.site import Role, Site

__all__ = ["BOUNDARY", "Boundary", "Checked", "Mailbox", "findings_of"]

Again = Callable[[torch.Tensor], None]
Keeper = Callable[[torch.Tensor, str, "Role"], object]
"""Takes a value that is checked while a step is run again, its name and its role."""


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """A value somebody checks, its extremes still on the device.

    Attributes:
        site: the value as a kept site of its own.
        size: number of elements.
        extremes: smallest and largest element, float32 or float64, of shape (2,).
    """

    site: Site
    size: int
    extremes: torch.Tensor


class Mailbox(Protocol):
    """Takes checks and reads them later; a monitor is one."""

    def take(self, checked: Checked) -> None:
        """Keep a check until the values of the step are read."""
        ...

    def follow(self, value: torch.Tensor, again: Again) -> None:
        """Note that a value is checked outside the module, for when the step is rerun.

        Args:
            value: what is checked.
            again: checks that value of a later run.
        """
        ...


class Boundary:
    """The monitors whose step is under way, and the checks that belong to none."""

    def __init__(self) -> None:
        self._open: list[weakref.ref[Mailbox]] = []
        self._waiting: list[Checked] = []
        self._muted = 0
        self.keeper: Keeper | None = None

    def open(self, mailbox: Mailbox) -> None:
        """Say that a step of this mailbox's program is under way."""
        if self._open:
            if self._open[-1]() is mailbox:
                return
            self.shut(mailbox)
        self._open.append(weakref.ref(mailbox))

    def shut(self, mailbox: Mailbox) -> None:
        """Say that no step of it is under way any more."""
        if self._open:
            self._open = [r for r in self._open if r() not in (None, mailbox)]

    @contextlib.contextmanager
    def muted(self) -> Iterator[None]:
        """Hear nothing inside the block: a step is run again, and told already."""
        self._muted += 1
        try:
            yield
        finally:
            self._muted -= 1

    @contextlib.contextmanager
    def telling(self, keeper: Keeper) -> Iterator[None]:
        """Hand values checked inside the block to whoever runs a step again."""
        before, self.keeper = self.keeper, keeper
        try:
            yield
        finally:
            self.keeper = before

    @property
    def is_muted(self) -> bool:
        """Whether checks are to be passed over."""
        return self._muted > 0

    @property
    def under_way(self) -> list[Mailbox]:
        """The monitors whose step is under way."""
        return [box for ref in self._open if (box := ref()) is not None]

    @property
    def mailbox(self) -> Mailbox | None:
        """The monitor whose step is under way, the innermost of several."""
        if self._muted:
            return None
        boxes = self.under_way
        return boxes[-1] if boxes else None

    def wait(self, checked: Checked) -> None:
        """Keep a check that belongs to no monitor."""
        self._waiting.append(checked)

    def collect(self) -> tuple[Finding, ...]:
        """Read the checks that belong to no monitor, and forget them."""
        found, self._waiting = self._waiting, []
        return findings_of(found)


def findings_of(checks: Sequence[Checked]) -> tuple[Finding, ...]:
    """Return what was wrong with checked values, read with one transfer a device."""
    devices: dict[torch.device, list[Checked]] = {}
    for checked in checks:
        devices.setdefault(checked.extremes.device, []).append(checked)
    found: list[Finding] = []
    for group in devices.values():
        rows: list[list[float]] = torch.stack(
            [c.extremes.to(group[0].extremes.dtype) for c in group]
        ).tolist()
        for checked, (low, high) in zip(group, rows, strict=True):
            if not (math.isfinite(low) and math.isfinite(high)):
                summary = Summary(n=checked.size, low=low, high=high)
                found.extend(diagnosed(checked.site, summary))
    return tuple(found)


def diagnosed(site: Site, summary: Summary) -> tuple[Finding, ...]:
    """Return the findings for one kept value on its own."""
    from numcheck.diagnose import diagnose
    from numcheck.diagnose.incident import Incident

    builder = TraceBuilder(step=0)
    builder.add(site, summary)
    trace = builder.build(framework="torch", torch=torch.__version__)
    incident = Incident(trace, step=0, settings={"framework": "torch"})
    return tuple(diagnose(incident))


BOUNDARY = Boundary()
"""One a process: a check inside a compiled program carries no caller."""
