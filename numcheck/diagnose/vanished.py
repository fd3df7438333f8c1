# SPDX-License-Identifier: Apache-2.0
"""Zeros that are what is left of a low-precision infinity: x / inf, exp(-inf).

A logarithm or a division that meets such a zero only finds what an overflow before it
destroyed; in a wider format there would have been a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numcheck.diagnose.load import is_low_precision

if TYPE_CHECKING:
    from numcheck.diagnose.health import Health
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["behind_zeros"]

_POLES: Final = ("div", "reciprocal", "rsqrt", "log", "pow")
_ENDS: Final = ("div", "reciprocal", "rsqrt", "exp")
_KEEPS_ZERO: Final = ("mul", "div", "sum", "mean", "sqrt", "square", "pow", "norm")
_REACH: Final = 12  # sites between the infinity's end and the pole


def behind_zeros(view: StepView, health: Health, pole: Site) -> dict[int, set[int]]:
    """Return the infinities whose ends a birth met as zeros, and the sites between.

    Args:
        view: the step.
        health: what is wrong with each of its sites.
        pole: an operator that gave a NaN or Inf out of finite operands.
    """
    found: dict[int, set[int]] = {}
    if pole.family not in _POLES:
        return found
    queue = [(p, {p.index}) for p in view.parents(pole) if _has_zero(view, p)]
    seen = {p.index for p, _ in queue}
    for site, way in queue:
        infinite = [p for p in site.parents if health.inf[p] and health.inf_is_real[p]]
        if infinite and site.family in _ENDS:
            for p in infinite:
                if is_low_precision(view.trace.sites[p]):
                    found.setdefault(p, set()).update(way)
            continue
        if len(way) > _REACH or not _keeps_zero(site):
            continue
        for parent in view.parents(site):
            if parent.index not in seen and _makes_zeros(view, parent, site):
                seen.add(parent.index)
                queue.append((parent, way | {parent.index}))
    return found


def _keeps_zero(site: Site) -> bool:
    is_operator = site.kind == "operator"
    is_moved = site.effect in ("move", "cast") and site.family != "select"
    return is_operator and (is_moved or site.family in _KEEPS_ZERO)


def _has_zero(view: StepView, site: Site) -> bool:
    summary = view.summary(site)
    return summary is not None and bool(summary.zero)


def _makes_zeros(view: StepView, parent: Site, site: Site) -> bool:
    """Whether the zeros of an operand are enough for all those of a result.

    A mask beside it, or an underflow, has its own; then nothing says whose zero the
    pole met. A slice may well have taken them all.
    """
    given, made = view.summary(parent), view.summary(site)
    if given is None or made is None or not given.zero:
        return False
    return site.effect == "move" or given.zero * made.n >= (made.zero or 0) * given.n
