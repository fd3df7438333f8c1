# SPDX-License-Identifier: Apache-2.0
"""The origin of a fault with its operands: what a rule looks at."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING

from numcheck.diagnose.ancestry import ancestry
from numcheck.diagnose.load import format_of

if TYPE_CHECKING:
    from numcheck.diagnose.ancestry import Ancestry
    from numcheck.diagnose.finding import FaultKind
    from numcheck.diagnose.incident import Incident
    from numcheck.diagnose.provenance import Origin, Provenance
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site

__all__ = ["Operand", "Scene"]


@dataclasses.dataclass(frozen=True, slots=True)
class Operand:
    """One operand of an operator: an array that was measured, or a plain number."""

    site: Site | None = None
    summary: Summary | None = None
    number: float | None = None

    @property
    def has_zero(self) -> bool:
        """Whether an element is zero; False where that was not measured."""
        if self.number is not None:
            return self.number == 0
        if self.summary is None:
            return False
        if self.summary.zero is not None:
            return self.summary.zero > 0
        return bool(self.summary.is_all_zero) or 0.0 in (self.low, self.high)

    @property
    def is_all_zero(self) -> bool:
        """Whether every element is zero."""
        if self.number is not None:
            return self.number == 0
        return self.summary is not None and bool(self.summary.is_all_zero)

    @property
    def low(self) -> float | None:
        """Smallest value where it is known and no NaN."""
        return _known(self.number, None if self.summary is None else self.summary.low)

    @property
    def high(self) -> float | None:
        """Largest value where it is known and no NaN."""
        return _known(self.number, None if self.summary is None else self.summary.high)

    @property
    def has_negative(self) -> bool:
        """Whether an element is below zero."""
        return self.low is not None and self.low < 0

    @property
    def amax(self) -> float | None:
        """Largest finite magnitude; None where not known."""
        if self.number is not None:
            return abs(self.number)
        return None if self.summary is None else self.summary.amax

    @property
    def has_inf(self) -> bool:
        """Whether an element is infinite."""
        if self.number is not None:
            return math.isinf(self.number)
        return self.summary is not None and bool(self.summary.has_inf)


def _known(number: float | None, extreme: float | None) -> float | None:
    value = number if number is not None else extreme
    return None if value is None or math.isnan(value) else value


@dataclasses.dataclass(frozen=True)
class Scene:
    """An origin and everything a rule may ask about it.

    Attributes:
        incident: the step that went wrong.
        provenance: what the data flow says about it.
        origin: the origin under the lens.
    """

    incident: Incident
    provenance: Provenance
    origin: Origin

    @property
    def site(self) -> Site:
        """The site of the origin."""
        return self.origin.site

    @functools.cached_property
    def summary(self) -> Summary | None:
        """What the origin's output held."""
        return self.provenance.view.summary(self.site)

    @property
    def kind(self) -> FaultKind:
        """What the origin's output holds that is not finite."""
        found = None if self.summary is None else self.summary.kind
        if found is not None:
            return found
        return "nan" if self.provenance.health.nan[self.site.index] else "inf"

    @functools.cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The operands in the operator's order, plain numbers in their places."""
        view = self.provenance.view
        numbers = {
            int(name.removeprefix("operand")): float(value)
            for name, value in self.site.detail
            if name.startswith("operand") and name[7:].isdigit()
            if isinstance(value, int | float)
        }
        arrays = iter(self.site.parents)
        found: list[Operand] = []
        for place in range(len(self.site.parents) + len(numbers)):
            if place in numbers:
                found.append(Operand(number=numbers[place]))
                continue
            index = next(arrays, None)
            if index is not None:
                site = view.trace.sites[index]
                found.append(Operand(site, view.summary(site)))
        return tuple(found)

    def operand(self, place: int) -> Operand:
        """Return one operand; an unknown one where the operator has fewer."""
        return self.operands[place] if place < len(self.operands) else Operand()

    @functools.cached_property
    def denominator(self) -> Operand:
        """What the operator divides by, as powers below zero do; unknown for others."""
        if self.site.family == "div":
            # addcdiv(a, b, c) is a + b / c.
            return self.operand(2 if "addcdiv" in self.site.op else 1)
        if self.site.family in ("reciprocal", "rsqrt"):
            return self.operand(0)
        exponent = self.operand(1).number
        if self.site.family == "pow" and exponent is not None and exponent < 0:
            return self.operand(0)
        return Operand()

    @functools.cached_property
    def ancestry(self) -> Ancestry:
        """What lies upstream of the origin."""
        return ancestry(self.provenance.view, self.site)

    def ancestry_of(self, operand: Operand) -> Ancestry | None:
        """Return what lies upstream of one operand; None for a plain number."""
        if operand.site is None:
            return None
        return ancestry(self.provenance.view, operand.site)

    def fact(self, name: str) -> str | float | None:
        """Return a named fact that the adapter noted about the operator."""
        return dict(self.site.detail).get(name)

    @property
    def largest_operand(self) -> float | None:
        """Largest finite magnitude among the operands; None where not known."""
        known = [o.amax for o in self.operands if o.amax is not None]
        return max(known, default=None)

    @functools.cached_property
    def squares_fit(self) -> bool:
        """Whether no sum of squares of what the operator reads can leave its format."""
        limit, amax = format_of(self.site), self.largest_operand
        read = [o.summary for o in self.operands if o.site is not None]
        known = [s for s in read if s is not None and s.amax is not None]
        if limit is None or amax is None or not known or len(known) < len(read):
            return False
        return max(s.n for s in known) * amax * amax < limit.max
