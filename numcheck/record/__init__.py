# SPDX-License-Identifier: Apache-2.0
"""What a run did: sites, data flow, summaries by step and rank, and the run folder."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from numcheck.record.site import Site, SourceLine
from numcheck.record.trace import Event, StepView, Trace, TraceBuilder

if TYPE_CHECKING:
    from numcheck.record.run_folder import Run, RunWriter, open_run

__all__ = [
    "Event",
    "Run",
    "RunWriter",
    "Site",
    "SourceLine",
    "StepView",
    "Trace",
    "TraceBuilder",
    "open_run",
]

_ON_DISK = ("Run", "RunWriter", "open_run")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _ON_DISK:
        msg = f"module 'numcheck.record' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module("numcheck.record.run_folder"), name)
