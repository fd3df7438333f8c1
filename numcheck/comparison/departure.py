# SPDX-License-Identifier: Apache-2.0
"""How far two runs part, in roundings, and where that is more than rounding.

Summaries do not depend on the order of elements, so a transposed kernel compares
equal. Each pair is measured by the relative differences of its root mean square, its
mean (against the root mean square) and its largest magnitude, in units of one rounding
of the coarser of the two formats.

Rounding grows smoothly along the depth of a program. A real difference is a jump: a
point that departs by `JUMP` times more than anything before it, and by at least
`JUMP` roundings.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Literal

from numcheck import formats
from numcheck.comparison.align import align, unknown_name
from numcheck.comparison.points import points
from numcheck.errors import ArgumentError, NumcheckError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.comparison.align import Alignment, Pair
    from numcheck.comparison.points import Point
    from numcheck.measure.summary import Summary
    from numcheck.record.trace import StepView, Trace

__all__ = ["JUMP", "Comparison", "Departure", "Verdict", "compare_traces"]

JUMP = 16.0
"""Times anything before it, and roundings, from which on a departure is a difference.

Within one module a rounding error grows by small factors (its condition number); a
wrong constant, mask or weight exceeds that by orders of magnitude."""

Verdict = Literal["equal", "rounding", "different", "downstream", "non-finite"]


@dataclasses.dataclass(frozen=True, slots=True)
class Departure:
    """How far one pair of points parts.

    Attributes:
        pair: the two points.
        roundings: the difference in roundings of the coarser format; 0 when equal,
            Inf when only one side is finite or the numbers of elements differ.
        verdict: what it means, given everything before it.
    """

    pair: Pair
    roundings: float
    verdict: Verdict

    @property
    def is_by_magnitude(self) -> bool:
        """Whether nothing but the largest magnitude could be compared.

        A step that was recorded cheaply, not audited, holds no sums.
        """
        sums = (self.pair.summary_a.rms, self.pair.summary_b.rms)
        finite = self.pair.summary_a.is_finite and self.pair.summary_b.is_finite
        return bool(finite) and None in sums


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Two steps, compared.

    Attributes:
        departures: every pair, in execution order of the first run.
        alignment: how they were paired, and what found no partner.
        step_a, step_b: the steps that were compared.
        meta_a, meta_b: what is known of the two programs: framework, versions, devices.
    """

    departures: tuple[Departure, ...]
    alignment: Alignment
    step_a: int
    step_b: int
    meta_a: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    meta_b: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def first_difference(self) -> Departure | None:
        """The first pair that parts by more than rounding; None when none does."""
        real = ("different", "non-finite")
        return next((d for d in self.departures if d.verdict in real), None)


def compare_traces(
    a: Trace,
    b: Trace,
    *,
    step_a: int | None = None,
    step_b: int | None = None,
    names: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare one step of two traces.

    Args:
        a: first trace.
        b: second trace.
        step_a: step of the first; by default its first recorded one.
        step_b: step of the second; by default likewise.
        names: paths in the first → paths in the second, where spelling differs.

    Raises:
        ArgumentError: a trace has no recorded step, or not the one asked for, or
            nothing of a name in `names`.
    """
    first, second = _step_of(a, step_a, "a"), _step_of(b, step_b, "b")
    same = _speak_alike(a, b)
    both = (points(first, operators=same), points(second, operators=same))
    for name, other in (names or {}).items():
        _check_name(name, both[0], "a")
        _check_name(other, both[1], "b")
    alignment = align(*both, names)
    judged = _judge(alignment.pairs)
    return Comparison(judged, alignment, first.step, second.step, a.meta, b.meta)


def _check_name(name: str, found: Sequence[Point], which: str) -> None:
    near = unknown_name(name, found)
    if near is not None:
        msg = f"nothing in {which} is called {name!r}; the nearest is {near!r}"
        raise ArgumentError(msg)


def _speak_alike(a: Trace, b: Trace) -> bool:
    """Whether two traces name their operators alike: those of one framework do.

    Where a trace does not say its framework, the names themselves tell.
    """
    known = a.meta.get("framework"), b.meta.get("framework")
    if all(known):
        return known[0] == known[1]
    ops = [{s.op for s in t.sites if s.kind == "operator"} for t in (a, b)]
    return 2 * len(ops[0] & ops[1]) > min(map(len, ops))


def _step_of(trace: Trace, step: int | None, which: str) -> StepView:
    if not trace.steps:
        msg = f"{which} has no recorded step, so there is nothing to compare"
        raise ArgumentError(msg)
    wanted = trace.steps[0] if step is None else step
    if wanted not in trace.steps:
        span = f"{trace.steps[0]} to {trace.steps[-1]}"
        msg = (
            f"step_{which} must be a recorded step of {which}: {len(trace.steps)} were "
            f"recorded, {span}; got {wanted}"
        )
        raise ArgumentError(msg)
    rank = min(r for s, r in trace.summaries if s == wanted)
    return trace.at(wanted, rank)


def _judge(pairs: tuple[Pair, ...]) -> tuple[Departure, ...]:
    judged = []
    worst = 1.0
    parted = False
    for pair in pairs:
        size = roundings(pair)
        verdict: Verdict = "equal" if size == 0 else "rounding"
        if size > JUMP * worst:
            verdict = "downstream" if parted else "different"
            if math.isinf(size) and not parted:
                verdict = "non-finite" if _finite_differs(pair) else "different"
            parted = True
        elif not parted:
            worst = max(worst, size)
        judged.append(Departure(pair, size, verdict))
    return tuple(judged)


def _finite_differs(pair: Pair) -> bool:
    return {pair.summary_a.is_finite, pair.summary_b.is_finite} == {True, False}


def roundings(pair: Pair) -> float:
    """Return how far a pair parts, in roundings of the coarser format.

    Two non-finite values count as equal whatever their kind: a device may give NaN
    where another gives Inf.
    """
    a, b = pair.summary_a, pair.summary_b
    if a.n != b.n or _finite_differs(pair):
        return math.inf
    if a.is_finite is False or b.is_finite is False:
        return 0.0
    unit = max(_unit(pair.a.site.dtype), _unit(pair.b.site.dtype))
    return max((d / unit for d in _differences(a, b)), default=0.0)


def _differences(a: Summary, b: Summary) -> list[float]:
    scale = max(a.rms or 0.0, b.rms or 0.0)
    found = []
    for x, y, size in (
        (a.rms, b.rms, scale),
        (a.mean, b.mean, scale),
        (a.amax, b.amax, max(a.amax or 0.0, b.amax or 0.0)),
    ):
        if x is not None and y is not None and size > 0:
            found.append(abs(x - y) / size)
    return found


def _unit(dtype: str) -> float:
    """Return one rounding of a format; float32's where the format is not known."""
    try:
        return formats.get(dtype).eps / 2
    except NumcheckError:
        return 2.0**-24
