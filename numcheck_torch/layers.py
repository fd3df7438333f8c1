# SPDX-License-Identifier: Apache-2.0
"""Sums of what modules return, where operators are followed by their extremes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck_torch.autograd_nodes import is_in_engine
from numcheck_torch.kinds import is_plain
from numcheck_torch.trees import tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from numcheck.record.trace import TraceBuilder
    from numcheck_torch.rehearsal import Rehearsal
    from numcheck_torch.site_log import SiteLog

__all__ = ["Layers"]

_MOST: Final = 10_000


class Layers:
    """Hears of every module that returns; what runs again in a backward is left out.

    Args:
        log: knows the sites of the values, and sums them.
        rehearsal: the last step, where this one goes as it went.
    """

    def __init__(self, log: SiteLog, rehearsal: Rehearsal | None) -> None:
        self._log = log
        self._rehearsal = rehearsal
        self._known: dict[tuple[tuple[str, str], int, int], list[int]] = {}
        self._step: TraceBuilder | None = None
        self._heard = 0

    def left(self, scope: tuple[str, str], out: object) -> None:
        """Sum what a module returned; its site is that of the last operator."""
        if is_in_engine():
            return
        values = [
            t for t in tensors(out) if is_plain(type(t)) and t.is_floating_point()
        ]
        for site, value in zip(self._sites(scope, values), values, strict=True):
            if site >= 0:
                self._log.sum_up(site, value.detach())

    def _sites(
        self, scope: tuple[str, str], values: Sequence[torch.Tensor]
    ) -> list[int]:
        """Return the sites of values; at the same place of a like step the same."""
        builder = self._log.builder
        if builder is not self._step:
            self._step, self._heard = builder, 0
        # Counted, as one that adds no site may be called for several values in a row.
        self._heard += 1
        at = scope, len(builder.sites), self._heard
        is_alike = self._rehearsal is not None and self._rehearsal.is_kept
        found = self._known.get(at) if is_alike else None
        if found is None or len(found) != len(values):
            if len(self._known) > _MOST:
                self._known.clear()
            found = self._known[at] = [self._log.holder(value) for value in values]
        return found
