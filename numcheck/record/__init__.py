# SPDX-License-Identifier: Apache-2.0
"""What a run did: sites, data flow, and summaries by step and rank."""

from __future__ import annotations

from numcheck.record.site import Site, SourceLine
from numcheck.record.trace import Event, StepView, Trace, TraceBuilder

__all__ = ["Event", "Site", "SourceLine", "StepView", "Trace", "TraceBuilder"]
