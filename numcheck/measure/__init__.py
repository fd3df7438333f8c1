# SPDX-License-Identifier: Apache-2.0
"""What an array holds, and how that fits a number format."""

from __future__ import annotations

from numcheck.measure._code_histogram import CodeHistogram
from numcheck.measure._compare import Comparison, compare
from numcheck.measure._fit import DEFAULT_FORMATS, Fit, FormatFit, fit
from numcheck.measure._margins import Margins, headroom, margins
from numcheck.measure._share_bounds import share_bounds
from numcheck.measure._shares import Interval, Shares
from numcheck.measure._summarize import summarize
from numcheck.measure._tolerances import Tolerance, tolerance_for
from numcheck.measure._ulp import ulp_distance
from numcheck.measure.summary import Summary

__all__ = [
    "DEFAULT_FORMATS",
    "CodeHistogram",
    "Comparison",
    "Fit",
    "FormatFit",
    "Interval",
    "Margins",
    "Shares",
    "Summary",
    "Tolerance",
    "compare",
    "fit",
    "headroom",
    "margins",
    "share_bounds",
    "summarize",
    "tolerance_for",
    "ulp_distance",
]
