# SPDX-License-Identifier: Apache-2.0
"""Integers that wrapped around before they became floating point."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numcheck.diagnose.causes.base import OVERFLOWS, explain
from numcheck.diagnose.finding import Evidence

if TYPE_CHECKING:
    from numcheck.diagnose.causes.base import Explanation
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["IntegerWrap"]

_GROWING = ("mul", "square", "pow", "sum", "product", "matmul", "cumulative", "add")


class IntegerWrap:
    """A count, square or unsigned difference left the range and came back elsewhere."""

    id = "N053"

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Answer for operands that only integers which wrapped around can give."""
        view = scene.provenance.view
        if broke.id in OVERFLOWS:
            return _of_difference(scene)
        if broke.id not in ("N301", "N302", "N311", "N312"):
            return None
        for site in scene.ancestry.integers:
            summary = view.summary(site)
            grows = site.family in _GROWING or _is_magnitude(site)
            if not grows or summary is None or summary.low is None:
                continue
            if summary.low < 0 and _had_no_reason(scene, site):
                seen = Evidence(
                    "integer_negative",
                    {"op": site.op, "dtype": site.dtype, "low": summary.low},
                )
                advice = ("cast_before_arithmetic", "wider_integer")
                return explain(self.id, "data", "likely", seen, advice=advice)
        return None


def _is_magnitude(site: Site) -> bool:
    """Whether it is an absolute value; that of the smallest integer is itself."""
    return re.search(r"\babs_?\b", site.op) is not None


def _of_difference(scene: Scene) -> Explanation | None:
    """Answer where a difference of unsigned integers came back larger than both."""
    view = scene.provenance.view
    for site in scene.ancestry.integers:
        held, most = view.summary(site), _largest_minuend(view, site)
        if site.family != "sub" or not site.dtype.startswith("uint"):
            continue
        if held is None or held.high is None or most is None or held.high <= most:
            continue
        seen = Evidence(
            "integer_too_large",
            {"op": site.op, "dtype": site.dtype, "high": held.high, "most": most},
        )
        advice = ("cast_before_arithmetic", "wider_integer")
        return explain("N053", "data", "likely", seen, advice=advice)
    return None


def _largest_minuend(view: StepView, site: Site) -> float | None:
    """Return what no difference is above; None where that is not known.

    What takes away a negative number, or takes away so many times (``alpha=-1``), adds.
    """
    read = [view.summary(parent) for parent in site.parents]
    highs = [None if s is None else s.high for s in read]
    given = (v for k, v in site.detail if k == "alpha" or k.startswith("operand"))
    numbers = [float(v) for v in given if isinstance(v, int | float)]
    known = [high for high in highs if high is not None]
    if len(known) < len(highs) or any(number < 0 for number in numbers):
        return None
    return max(known + numbers, default=None)


def _had_no_reason(scene: Scene, site: Site) -> bool:
    """Whether a negative result cannot come from the operands' own signs."""
    if site.family in ("square", "pow") or _is_magnitude(site):
        return True
    view = scene.provenance.view
    read = [view.summary(parent) for parent in site.parents]
    numbers = [v for name, v in site.detail if name.startswith("operand")]
    if read and all(s is not None and s.low is not None and s.low >= 0 for s in read):
        return not any(isinstance(v, int | float) and v < 0 for v in numbers)
    squares = [
        s
        for s in scene.ancestry.integers
        if s.family in ("square", "pow")
        or (s.family in ("mul", "matmul") and len(set(s.parents)) == 1)
    ]
    lows = [
        s.low
        for site in scene.ancestry.sources("input", "target")
        if site.dtype.startswith(("int", "uint"))
        if (s := view.summary(site)) is not None and s.low is not None
    ]
    return bool(squares) or (bool(lows) and min(lows) >= 0)
