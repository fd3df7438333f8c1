# SPDX-License-Identifier: Apache-2.0
"""What the scalars of a run say of its learning rate, its warm-up and its clipping."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from typing import TYPE_CHECKING, Final

from numcheck.diagnose.history import series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.record.trace import Event

__all__ = ["UPDATE_RATIO", "Jump", "Rise", "Thrown", "jumped", "rose", "thrown"]

UPDATE_RATIO: Final = "update_ratio"
"""Scalar of sampled steps: the largest change of a weight as a share of the weight."""
_GROWN: Final = 10.0
_SMALL: Final = 0.01
"""Ten times the change that well-set trainings make at a step: below, the rate is not
what drives a loss up."""
_LARGE: Final = 0.1
_WHOLE: Final = 1.0
_EARLY: Final = 8
_THROWN: Final = 3.0
_BEFORE: Final = 8
_LATELY: Final = 3
_SAME: Final = 0.999


@dataclasses.dataclass(frozen=True, slots=True)
class Rise:
    """A loss that no update ever lowered.

    Attributes:
        first: its value before the first update.
        last: its last finite value.
        steps: steps between the two.
        ratio: change of a weight at the first sampled update as a share of the weight;
            None where it was not measured.
        rate: learning rate at the first step; None where it is not known.
    """

    first: float
    last: float
    steps: int
    ratio: float | None
    rate: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Thrown:
    """A loss that the first updates threw up, at a rate that was bearable later.

    Attributes:
        first: its value before the first update.
        peak: its largest value within the first steps.
        back: its smallest value after that.
        ratio: change of a weight at the first sampled update as a share of the weight.
        rate: learning rate of the first step, which no later one exceeds.
    """

    first: float
    peak: float
    back: float
    ratio: float
    rate: float


@dataclasses.dataclass(frozen=True, slots=True)
class Jump:
    """A gradient norm that left its usual size all at once.

    Attributes:
        step: when it did.
        norm: how large it was.
        usual: median of the steps before.
    """

    step: int
    norm: float
    usual: float


def rose(history: Sequence[Event]) -> Rise | None:
    """Return how the loss rose from the first update on; None where one lowered it.

    The step before the first update tells what the initialisation gives, so a rise
    from there is the updates' doing. Where they are known to be small it is not the
    learning rate's.

    Example:
        >>> from numcheck.record import Event
        >>> rose([Event("loss", i, 4.0**i) for i in range(4)]).last
        64.0
        >>> rose([Event("loss", i, v) for i, v in enumerate([4.0, 1.0, 90.0])])
    """
    losses = _losses(history)
    if len(losses) < 2 or losses[0][0] != 0:
        return None
    (start, first), (end, last) = losses[0], losses[-1]
    values = [value for _, value in losses]
    pairs = list(itertools.pairwise(values))
    if min(values[1:]) <= first or 2 * sum(b > a for a, b in pairs) <= len(pairs):
        return None
    ratio = _first(history, UPDATE_RATIO)
    by_loss = len(losses) > 2 and last >= _GROWN * first
    if ratio is not None and ratio < _SMALL:
        return None
    if not by_loss and (ratio is None or ratio < _WHOLE):
        return None
    return Rise(first, last, end - start, ratio, _first(history, "learning_rate"))


def thrown(history: Sequence[Event], factor: float = _THROWN) -> Thrown | None:
    """Return how the first updates threw the loss up; None where they did not.

    Args:
        history: scalars of the steps before, oldest first.
        factor: how many times its first value the loss must have reached.

    Only where the learning rate was never larger than at the first step, and where
    updates that large are known to have changed a weight by a tenth.
    """
    losses, rates = _losses(history), series(history, "learning_rate")
    ratio = _first(history, UPDATE_RATIO)
    if not losses or losses[0][0] != 0 or not rates or rates[0][0] != 0:
        return None
    rate = rates[0][1]
    if rate < _SAME * max(value for _, value in rates) or rate <= 0:
        return None
    if ratio is None or ratio < _LARGE:
        return None
    first = losses[0][1]
    place = max(range(len(losses[: _EARLY + 1])), key=lambda i: losses[i][1])
    peak = losses[place][1]
    after = [value for _, value in losses[place + 1 :]]
    if peak < factor * first or not after or 2 * min(after) > peak:
        return None
    return Thrown(first, peak, min(after), ratio, rate)


def jumped(history: Sequence[Event]) -> Jump | None:
    """Return where the gradient norm jumped among its last steps; None if it did not.

    Eight calm steps come before it, all of them ten times smaller at least: a run that
    grows step after step jumps nowhere.
    """
    norms = [(s, v) for s, v in series(history, "gradient_norm") if math.isfinite(v)]
    for place in range(max(_BEFORE, len(norms) - _LATELY), len(norms)):
        before = [value for _, value in norms[place - _BEFORE : place]]
        usual = statistics.median(before)
        step, norm = norms[place]
        calm = 0 < max(before) <= _GROWN * usual
        if calm and norm >= _GROWN * max(before):
            return Jump(step, norm, usual)
    return None


def _losses(history: Sequence[Event]) -> list[tuple[int, float]]:
    """Return the finite losses; none where one is not positive: no factor is told."""
    found = [(s, v) for s, v in series(history, "loss") if math.isfinite(v)]
    return found if all(v > 0 for _, v in found) else []


def _first(history: Sequence[Event], name: str) -> float | None:
    return next((v for s, v in series(history, name) if s == 0), None)
