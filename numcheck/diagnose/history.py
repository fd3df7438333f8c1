# SPDX-License-Identifier: Apache-2.0
"""How a scalar of the training (loss, gradient norm) moved over the steps before."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.record.trace import Event

__all__ = ["Growth", "growth", "series"]

_WINDOW = 64  # steps looked back at; older ones say little about a blow-up


@dataclasses.dataclass(frozen=True, slots=True)
class Growth:
    """How much a positive scalar grew.

    Attributes:
        name: the scalar's name.
        first: its ordinary value: the median of the first half of the window.
        last: its last finite value.
        steps: number of steps between the two ends of the window.
    """

    name: str
    first: float
    last: float
    steps: int

    @property
    def factor(self) -> float:
        """Ratio of last to first; Inf where it grew from zero."""
        if self.first == 0:
            return math.inf if self.last > 0 else 1.0
        return self.last / self.first

    @property
    def per_step(self) -> float:
        """Growth factor per step, the geometric mean."""
        if not math.isfinite(self.factor) or self.factor <= 0 or self.steps < 1:
            return self.factor
        return float(self.factor ** (1 / self.steps))


def series(history: Sequence[Event], name: str) -> list[tuple[int, float]]:
    """Return (step, value) of a scalar, numbers only, oldest first.

    Example:
        >>> from numcheck.record import Event
        >>> series([Event("loss", 0, 2.0), Event("note", 0, "hello")], "loss")
        [(0, 2.0)]
    """
    return [
        (e.step, float(e.value))
        for e in history
        if e.name == name and isinstance(e.value, int | float)
    ]


def growth(history: Sequence[Event], name: str) -> Growth | None:
    """Return how a scalar grew; None with fewer than two finite values.

    Example:
        >>> from numcheck.record import Event
        >>> growth([Event("loss", i, 10.0**i) for i in range(4)], "loss").last
        1000.0
    """
    finite = [(s, abs(v)) for s, v in series(history, name) if math.isfinite(v)]
    window = finite[-_WINDOW:]
    if len(window) < 2:
        return None
    early = [v for _, v in window[: max(1, len(window) // 2)]]
    return Growth(
        name,
        statistics.median_low(early),  # one that the user saw
        window[-1][1],
        window[-1][0] - window[0][0],
    )
