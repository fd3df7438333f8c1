# SPDX-License-Identifier: Apache-2.0
"""What a monitor found so far: each origin once, with how often it failed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.diagnose.finding import Finding, Severity

__all__ = ["KnownFindings"]

_ORDER = {"error": 0, "warning": 1, "note": 2}


class KnownFindings:
    """Tells news from what was told before.

    An origin that fails at the next step again is counted, not told again, until a
    healthy step comes between.
    """

    def __init__(self) -> None:
        """Begin without a finding."""
        self._findings: list[Finding] = []
        self._open: dict[tuple[str, str, str], Severity] = {}
        self._trends: set[tuple[str, str, str]] = set()

    @property
    def in_order(self) -> tuple[Finding, ...]:
        """Findings so far, the most severe first, then in the order they came."""
        return tuple(sorted(self._findings, key=lambda f: _ORDER[f.severity]))

    @property
    def is_failing(self) -> bool:
        """Whether a failure was told and no healthy step came since."""
        return "error" in self._open.values()

    def is_known(self, finding: Finding) -> bool:
        """Whether this origin failed as badly and no healthy step came since."""
        before = self._open.get(_origin(finding))
        return before is not None and _ORDER[before] <= _ORDER[finding.severity]

    def take(self, findings: Iterable[Finding]) -> list[Finding]:
        """Keep what is new and return it; count what is known."""
        news = [f for f in findings if not self._counted(f)]
        self._findings.extend(news)
        for finding in news:
            self._open[_origin(finding)] = finding.severity
            if finding.kind == "drift":
                self._trends.add(_origin(finding))
        return news

    def rearm(self) -> None:
        """Say that a step was healthy: an origin seen before is news again."""
        # A trend is told of healthy steps: it is no news at the next one.
        if self._open:
            self._open = {o: s for o, s in self._open.items() if o in self._trends}

    def _counted(self, finding: Finding) -> bool:
        """Count a repeated origin instead of keeping it again."""
        if not self.is_known(finding):
            return False
        for i, known in enumerate(self._findings):
            if _origin(known) == _origin(finding):
                self._findings[i] = dataclasses.replace(known, count=known.count + 1)
        return True


def _origin(finding: Finding) -> tuple[str, str, str]:
    return finding.id, finding.site.scope, finding.site.op
