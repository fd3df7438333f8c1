# SPDX-License-Identifier: Apache-2.0
"""Sums that no longer move, because the addend is below half a step of the format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import format_of
from numcheck.diagnose.series import iterations_in, repetitions_before

if TYPE_CHECKING:
    from numcheck.diagnose.finding import FaultKind, Field
    from numcheck.formats import Format
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["is_same", "stagnant"]


_OFTEN: Final = 16
"""Additions of one line that make a sum of many."""
_REDUCTIONS = ("sum", "mean", "cumulative")


def stagnant(
    view: StepView, site: Site
) -> tuple[FaultKind, tuple[Evidence, ...]] | None:
    """Return the evidence that an addition left its larger operand as it was."""
    limit, result = format_of(site), view.summary(site)
    if limit is None or limit.kind != "float" or result is None:
        return None
    if site.family in _REDUCTIONS:
        return _accumulated(view, site, limit)
    if site.family not in ("add", "sub", "optimizer"):
        return None
    if iterations_in(view, site) > 1:
        return _stuck(view, site, limit, result)
    return _lost_addend(view, site, limit, result)


def _lost_addend(
    view: StepView, site: Site, limit: Format, result: Summary
) -> tuple[FaultKind, tuple[Evidence, ...]] | None:
    large, small = _operands(view, site)
    if large is None or not small:
        return None
    if is_same(large, result):
        key = "stagnant"
    elif _is_coarse_sum(view, site, limit, large, small):
        key = "coarse_sum"
    else:
        return None
    fields: dict[str, Field] = {
        "large": large.amax or 0.0,
        "small": small,
        "dtype": limit.name,
    }
    return "stagnation", (Evidence(key, fields),)


def _is_coarse_sum(
    view: StepView, site: Site, limit: Format, large: Summary, small: float
) -> bool:
    """Whether one more addend of many is below what the sum can resolve.

    Each is rounded to nothing or to twice its size: some of them still move it.
    """
    if site.family not in ("add", "sub") or not large.amax:
        return False
    if small > 2 * large.amax * float(limit.unit_roundoff):
        return False
    return repetitions_before(view, site).rungs >= _OFTEN


def _stuck(
    view: StepView, site: Site, limit: Format, result: Summary
) -> tuple[FaultKind, tuple[Evidence, ...]] | None:
    """Return the evidence that a sum in a loop, recorded as one site, got stuck."""
    held = [view.summary(p) for p in site.parents]
    addends = [s.amax for s in held if s is not None and s.amax]
    addends += _numbers(site)
    if not addends or not result.amax:
        return None
    small = max(addends)
    if small > result.amax * limit.unit_roundoff:
        return None
    fields: dict[str, Field] = {
        "large": result.amax,
        "small": small,
        "dtype": limit.name,
    }
    return "stagnation", (Evidence("stagnant", fields),)


def _numbers(site: Site) -> list[float]:
    """Return the magnitudes of the plain numbers among the operands."""
    return [
        abs(float(v))
        for k, v in site.detail
        if k.startswith("operand") and isinstance(v, int | float)
    ]


def _accumulated(
    view: StepView, site: Site, limit: Format
) -> tuple[FaultKind, tuple[Evidence, ...]] | None:
    """Return the evidence that a sum of terms of one sign lost most of its terms.

    Terms of both signs may cancel, which leaves noise in any format.
    """
    held = [view.summary(p) for p in site.parents]
    if len(held) != 1 or held[0] is None or held[0].low is None or held[0].low < 0:
        return None
    fields: dict[str, Field] = {
        "terms": held[0].n,
        "amax": held[0].amax or 0.0,
        "dtype": limit.name,
    }
    return "stagnation", (Evidence("accumulated", fields),)


def _operands(view: StepView, site: Site) -> tuple[Summary | None, float]:
    """Return the larger operand and the magnitude of the smaller one."""
    held = [s for p in site.parents if (s := view.summary(p)) is not None]
    numbers = _numbers(site)
    if not held or len(held) + len(numbers) < 2:
        return None, 0.0
    held.sort(key=lambda s: s.amax or 0.0)
    large = held.pop()
    rest = [*(s.amax or 0.0 for s in held), *numbers]
    return large, max(rest)


def is_same(before: Summary, after: Summary) -> bool:
    """Whether everything measured about the two arrays agrees."""
    if before.amax is None or before.n != after.n:
        return False
    return (before.amax, before.amin, before.total, before.total_sq) == (
        after.amax,
        after.amin,
        after.total,
        after.total_sq,
    )
