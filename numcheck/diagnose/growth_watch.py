# SPDX-License-Identifier: Apache-2.0
"""Scalars that grew at every one of their last steps, followed at no price."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

__all__ = ["EXPLODES", "FOLLOWED", "IN_A_ROW", "GrowthWatch"]

FOLLOWED: Final = ("loss", "gradient_norm")
IN_A_ROW: Final = 8
"""Steps that must all grow. Of values without a trend nine in a row rise once in 9!."""
EXPLODES: Final = 1e3
"""Growth over these steps that no ordinary training shows."""
_GROWS: Final = 1.5
_APART: Final = 5
_MOST: Final = 12


class GrowthWatch:
    """Follows the loss and the gradient norm, and says when a closer look is due.

    Attributes:
        factor: growth over the last steps; 1 where one of them did not grow.

    Example:
        >>> growth = GrowthWatch()
        >>> for step in range(10):
        ...     growth.take("loss", 1.1**step)
        >>> round(growth.factor, 2), growth.wants_audit(10), growth.wants_audit(11)
        (2.14, True, False)
    """

    def __init__(self) -> None:
        """Begin without a value."""
        self.factor = 1.0
        self._runs: dict[str, deque[float]] = {}
        self._audited: int | None = None
        self._audits = 0

    def take(self, name: str, value: object) -> None:
        """Hear of a scalar of the present step; others than those followed are let by.

        What falls, stays, changes its sign or is not finite ends a run of growth: a
        likelihood that passes through zero grows by no factor.
        """
        if name not in FOLLOWED or not isinstance(value, (int, float)):
            return
        run = self._runs.get(name)
        if run is None:
            run = self._runs[name] = deque(maxlen=IN_A_ROW + 1)
        if run:
            is_other = (value < 0) != (run[-1] < 0)
            if is_other or abs(value) <= abs(run[-1]):
                run.clear()
        if math.isfinite(value):
            run.append(float(value))
        else:
            run.clear()
        if len(run) > IN_A_ROW or self.factor > 1:
            self.factor = max(map(_growth_over, self._runs.values()))

    def wants_audit(self, step: int) -> bool:
        """Whether to look at this step operator by operator, and count that it is.

        Asked again about the same step the answer is the same.
        """
        if step == self._audited:
            return True
        if self.factor < _GROWS:
            self._audits = 0
            return False
        if self._audited is not None and step - self._audited < _APART:
            return False
        if self._audits >= _MOST:
            return False
        self._audited, self._audits = step, self._audits + 1
        return True


def _growth_over(run: deque[float]) -> float:
    return run[-1] / run[0] if len(run) > IN_A_ROW and run[0] else 1.0
