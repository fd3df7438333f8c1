# SPDX-License-Identifier: Apache-2.0
"""Dumps of other tools, read into traces: msprobe's, and CANN's overflow records."""

from __future__ import annotations

from numcheck.record.foreign.dump import read_dump, read_steps

__all__ = ["read_dump", "read_steps"]
