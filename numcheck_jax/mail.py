# SPDX-License-Identifier: Apache-2.0
"""What running programs reported to a monitor, until Python has the word again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from numcheck.record.notice import notice
from numcheck.report.messages import told

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding
    from numcheck_jax.ingraph import Report

__all__ = ["Mail"]


class Mail:
    """Reports of checks inside programs, and findings of checks by hand.

    Programs hold it instead of the monitor, which they may outlive. Lists are
    appended to from any thread.
    """

    def __init__(self, function: object) -> None:
        """Collect for the monitor of `function`."""
        self._name = getattr(function, "__name__", repr(function))
        self._reports: list[Report] = []
        self._checks: list[Finding] = []

    def take(self, findings: tuple[Finding, ...]) -> None:
        """Keep what a check by hand found."""
        self._checks.extend(findings)

    def receive(self, report: Report) -> None:
        """Keep what the check inside a program found, and say so once."""
        if not self._reports:
            said = told(notice("notice.left_inside", name=self._name))
            print(f"numcheck: {said}", file=sys.stderr)  # noqa: T201 - nothing may be raised where programs call back
        self._reports.append(report)

    def checks(self) -> list[Finding]:
        """Return the findings of checks by hand, and forget them."""
        found, self._checks = self._checks, []
        return found

    def reports(self) -> list[Report]:
        """Return the first report of each place and direction, and forget all."""
        found, self._reports = self._reports, []
        first = {(id(r.place), r.backward): r for r in reversed(found)}
        return list(reversed(first.values()))
