# SPDX-License-Identifier: Apache-2.0
"""Hears of every run of a compiled graph, and tells the recorder at work."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

from numcheck.record.notice import notice

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from numcheck.record.site import Phase
    from numcheck_torch.compile.extra_output import Extra
    from numcheck_torch.compile.table import GraphTable

__all__ = ["GraphListener", "Observer"]


class GraphListener(Protocol):
    """Takes the runs of compiled graphs; a recorder is one."""

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Record nothing inside the block."""
        ...

    def graph_starts(self, table: GraphTable, args: Sequence[Any]) -> Any:
        """Find the sites of a graph's arguments; what is returned comes back."""
        ...

    def graph_ran(
        self,
        table: GraphTable,
        extras: Sequence[Extra],
        found: Sequence[torch.Tensor],
        prepared: Any,
        results: Sequence[Any],
    ) -> None:
        """Add the sites of a graph that ran, its extremes on the device."""
        ...


class Observer:
    """The compiled graphs of one program.

    Attributes:
        listener: whoever records at the moment; None for nobody.
        modules: ids of the modules that run inside compiled code.
        graphs: number of graphs compiled so far.
        notes: what could not be watched, each once.
    """

    def __init__(self) -> None:
        self.listener: GraphListener | None = None
        self.modules: set[int] = set()
        self.graphs = 0
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Say once what is not covered."""
        if text not in self.notes:
            self.notes.append(text)

    def compiled(self, table: GraphTable) -> None:
        """Count a graph that was compiled."""
        self.graphs += 1
        if table.unmeasured:
            n, phase = table.unmeasured, table.phase
            self.note(notice("notice.sizes_of_data", n=n, phase=phase))

    def unwatched(self, phase: Phase, error: Exception) -> None:
        """Count a graph that was compiled as it is, because measuring it failed."""
        self.graphs += 1
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        self.note(notice("notice.graph_unmeasured", phase=phase, error=said))

    def unrecorded(self) -> contextlib.AbstractContextManager[None]:
        """Keep what a compiled graph calls from being recorded a second time."""
        if self.listener is None:
            return contextlib.nullcontext()
        return self.listener.paused()

    def before(self, table: GraphTable, args: Sequence[Any]) -> Any:
        """Tell the listener that a graph is about to run."""
        return (
            None if self.listener is None else self.listener.graph_starts(table, args)
        )

    def after(
        self,
        table: GraphTable,
        extras: Sequence[Extra],
        found: Sequence[torch.Tensor],
        prepared: Any,
        results: Sequence[Any],
    ) -> None:
        """Tell the listener that a graph ran."""
        if self.listener is not None:
            self.listener.graph_ran(table, extras, found, prepared, results)
