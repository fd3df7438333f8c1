# SPDX-License-Identifier: Apache-2.0
"""Two runs side by side: across frameworks, devices, precisions, versions.

Points of both runs are aligned (`align`), each pair's departure is measured in
roundings of its format (`departure`), and the first place where the runs part by more
than rounding is named.
"""

from __future__ import annotations

from numcheck.comparison.align import Pair, align
from numcheck.comparison.departure import Comparison, compare_traces
from numcheck.comparison.points import Point, points

__all__ = ["Comparison", "Pair", "Point", "align", "compare_traces", "points"]
