# SPDX-License-Identifier: Apache-2.0
"""What an array holds, and how that fits a number format."""

from __future__ import annotations

from numcheck.measure._code_histogram import CodeHistogram
from numcheck.measure._margins import Margins, headroom, margins
from numcheck.measure._summarize import summarize
from numcheck.measure.summary import Summary

__all__ = [
    "CodeHistogram",
    "Margins",
    "Summary",
    "headroom",
    "margins",
    "summarize",
]
