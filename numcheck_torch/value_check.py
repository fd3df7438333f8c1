# SPDX-License-Identifier: Apache-2.0
"""A value looked at on its own: at once, later, or by the monitor at work."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal

from torch.utils._python_dispatch import _disable_current_modes

from numcheck.errors import NonFiniteError
from numcheck.record.site import Site
from numcheck_torch.boundary import BOUNDARY, Checked, diagnosed
from numcheck_torch.dtypes import format_name
from numcheck_torch.meters import extremes
from numcheck_torch.statistics import summarize

if TYPE_CHECKING:
    import torch

    from numcheck.diagnose.finding import Finding
    from numcheck.record.site import SourceLine

__all__ = ["ValueCheck", "When", "fail"]

When = Literal["now", "later"]


@dataclasses.dataclass(frozen=True, slots=True)
class ValueCheck:
    """A place of the user's program with a check.

    Attributes:
        name: what the user calls the value.
        phase: whether the value itself is looked at, or its gradient.
        when: whether to wait for the answer.
        source: the user's line, where known.
    """

    name: str
    phase: Literal["forward", "backward"]
    when: When
    source: SourceLine | None = None

    def look(self, value: torch.Tensor) -> None:
        """Check a value, or leave it to the monitor whose step is under way.

        Raises:
            NonFiniteError: it holds a NaN or an Inf, and nobody else takes care.
        """
        keeper = BOUNDARY.keeper
        if not value.numel() or (BOUNDARY.is_muted and keeper is None):
            return
        with _disable_current_modes():
            value = value.detach()
            if keeper is not None:
                site = self._site(value)
                keeper(value, site.op, site.role)
                return
            checked = Checked(self._site(value), value.numel(), extremes(value))
            mailbox = BOUNDARY.mailbox
            if mailbox is not None:
                mailbox.take(checked)
            elif self.when == "later":
                BOUNDARY.wait(checked)
            elif not all(map(math.isfinite, checked.extremes.tolist())):
                fail(diagnosed(checked.site, summarize(value)))

    def _site(self, value: torch.Tensor) -> Site:
        is_gradient = self.phase == "backward"
        return Site(
            index=0,
            op=f"gradient:{self.name}" if is_gradient else f"output:{self.name}",
            phase=self.phase,
            kind="kept",
            role="gradient" if is_gradient else "checked",
            effect="move",
            dtype=format_name(value.dtype),
            shape=tuple(value.shape),
            source=self.source,
        )


def fail(findings: tuple[Finding, ...]) -> None:
    """Raise findings, as the report shows them.

    Raises:
        NonFiniteError: always.
    """
    from numcheck.report.raised import raised_text

    raise NonFiniteError(findings, raised_text(findings))
