# SPDX-License-Identifier: Apache-2.0
"""Values too small for their format, which became zero."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.load import format_of

if TYPE_CHECKING:
    from numcheck.diagnose.finding import FaultKind, Field
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["flushed"]

_READ = 3  # gradient, prediction, target
_MOST = 0.5  # share of the non-zero elements that became zero


def flushed(
    view: StepView, site: Site
) -> tuple[FaultKind, tuple[Evidence, ...]] | None:
    """Return the evidence that `site` flushed its result to zero, or None.

    Sums may cancel to zero in any format, so only operators that cannot cancel count,
    or sums whose every term is too small.
    """
    limit, held = format_of(site), view.summary(site)
    if limit is None or limit.kind != "float" or held is None or not site.parents:
        return None
    largest = _largest_result(view, site)
    if largest is None or largest == 0 or largest >= limit.smallest_normal:
        return None
    if not held.is_all_zero and not _mostly_zero(view, site):
        return None
    fields: dict[str, Field] = {
        "amax": largest,
        "dtype": limit.name,
        "smallest": limit.smallest_subnormal,
    }
    return "underflow", (Evidence("flushed", fields),)


def _largest_result(view: StepView, site: Site) -> float | None:
    """Return a bound on the magnitude of the exact result, from the operands."""
    held = [view.summary(p) for p in site.parents]
    amaxes = [s.amax for s in held if s is not None and s.amax is not None]
    numbers = [
        abs(float(v))
        for k, v in site.detail
        if k.startswith("operand") and isinstance(v, int | float)
    ]
    if len(amaxes) != len(site.parents):
        return None
    if site.family == "div" and len(amaxes) + len(numbers) == 2:
        return _quotient(view, site, amaxes, numbers)
    if site.family == "loss" and site.phase == "backward":
        return _slope_of_loss(site, amaxes)
    terms = max((s.n for s in held if s is not None), default=1)
    bounds: dict[str, float] = {
        "cast": max(amaxes),
        "mul": math.prod((*amaxes, *numbers)),
        "square": amaxes[0] ** 2,
        "matmul": math.prod(amaxes[:2]) * terms,
        "conv": math.prod(amaxes[:2]) * terms,
        "sum": amaxes[0] * terms,
        "mean": amaxes[0],
    }
    return bounds.get("cast" if site.effect == "cast" else site.family)


def _slope_of_loss(site: Site, amaxes: list[float]) -> float | None:
    """Return a bound on what the derivative of an elementwise loss passes on.

    Its operands are the gradient, prediction and target. Reduction 1 is a mean, which
    divides by the number of elements.
    """
    if len(amaxes) != _READ or not any(n in site.op for n in ("mse_loss", "l1_loss")):
        return None
    slope = 2 * (amaxes[1] + amaxes[2]) if "mse_loss" in site.op else 1.0
    is_mean = dict(site.detail).get("reduction") == 1
    return amaxes[0] * slope / (math.prod(site.shape) if is_mean else 1)


def _quotient(
    view: StepView, site: Site, amaxes: list[float], numbers: list[float]
) -> float | None:
    if numbers:
        return amaxes[0] / numbers[0] if numbers[0] else None
    divisor = view.summary(site.parents[1])
    if divisor is None or not divisor.amin:
        return None
    return amaxes[0] / divisor.amin


def _mostly_zero(view: StepView, site: Site) -> bool:
    """Whether most of what was not zero before is zero now."""
    after = view.summary(site)
    if after is None or after.zero is None:
        return False
    read = [view.summary(p) for p in site.parents]
    before = next((s for s in read if s is not None and s.n == after.n), None)
    if before is None or before.zero is None:
        return False
    alive = before.n - before.zero
    return alive > 0 and after.zero - before.zero > _MOST * alive
