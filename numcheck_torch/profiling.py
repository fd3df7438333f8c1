# SPDX-License-Identifier: Apache-2.0
"""Module names as ranges in a profile, spelled as in a report."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from torch.profiler import record_function

from numcheck_torch.scope import ModuleStack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

__all__ = ["profiler_ranges"]


@contextlib.contextmanager
def profiler_ranges(model: nn.Module) -> Iterator[None]:
    """Show each module's forward as a range of its name while the block runs.

    The names are those of a report's sites, so that a finding and a profile can be
    laid beside each other: ``blocks.0.up``, the class's name for the model itself.
    Profilers of ranges (`torch.profiler`, NVTX, an NPU's) all see them. Outside the
    block nothing is installed and nothing costs; inside, a call of a module costs a
    few microseconds. Parts that run compiled are left as they are.

    Args:
        model: watched by numcheck or not.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        >>> with torch.profiler.profile() as profile, profiler_ranges(model):
        ...     _ = model(torch.ones(1, 2))
        >>> {"Sequential", "0"} <= {event.name for event in profile.events()}
        True
    """
    with _Ranges(model, stays_compiled=True):
        yield


class _Ranges(ModuleStack):
    """A stack of modules that keeps a range open for each."""

    def __init__(self, root: nn.Module, *, stays_compiled: bool) -> None:
        super().__init__(root, stays_compiled=stays_compiled)
        self._open: list[record_function] = []

    def push(self, scope: str, scope_type: str) -> None:
        """Enter a module and open its range."""
        super().push(scope, scope_type)
        opened = record_function(scope or scope_type)
        opened.__enter__()
        self._open.append(opened)

    def pop(self) -> None:
        """Close the innermost module's range and leave it."""
        if self._open:
            self._open.pop().__exit__(None, None, None)
        super().pop()

    def __exit__(self, *exception: object) -> None:
        """Close what is still open and remove the hooks."""
        while self._open:
            self.pop()
        super().__exit__(*exception)
