# SPDX-License-Identifier: Apache-2.0
"""A straight line through a scalar's history."""

from __future__ import annotations

import dataclasses
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Line", "fitted"]


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A least-squares line.

    Attributes:
        slope: change per step.
        explained: share of the variance it explains (r²), 0 to 1.
    """

    slope: float
    explained: float


def fitted(samples: Sequence[tuple[int, float]]) -> Line | None:
    """Return the line through (step, value) samples; None below three steps.

    Example:
        >>> fitted([(0, 8.0), (10, 6.0), (20, 4.0)])
        Line(slope=-0.2, explained=1.0)
    """
    steps = [float(s) for s, _ in samples]
    values = [v for _, v in samples]
    if len(set(steps)) < 3:
        return None
    if len(set(values)) == 1:
        return Line(0.0, 1.0)
    slope = statistics.linear_regression(steps, values).slope
    return Line(slope, statistics.correlation(steps, values) ** 2)
