# SPDX-License-Identifier: Apache-2.0
"""Overflows that leave no Inf and NaNs that leave no NaN.

A device that saturates gives the largest finite number for an overflow and 0 for a
NaN, so nothing that is not finite ever reaches a result. Two things betray it: the
device's own flag, which an adapter reads after each operator of a replay, and results
that lie exactly at the end of their format, or are zero where there is no result.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import TYPE_CHECKING, Final, Literal

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.harm import harm_rank
from numcheck.diagnose.load import format_of
from numcheck.diagnose.provenance import Origin
from numcheck.diagnose.scene import Scene

if TYPE_CHECKING:
    from numcheck.diagnose.finding import FaultKind
    from numcheck.diagnose.incident import Incident
    from numcheck.diagnose.provenance import Provenance
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Family, Site

__all__ = ["HiddenScene", "hidden_faults", "is_flagged", "is_saturated"]

_By = Literal["flag", "status", "values"]
_ARITHMETIC: Final[frozenset[Family]] = frozenset(
    {
        "add", "sub", "mul", "div", "pow", "square", "reciprocal", "rsqrt", "exp",
        "log", "matmul", "conv", "sum", "mean", "cumulative", "product", "norm",
        "variance", "normalisation", "attention", "loss", "cast",
    }
)  # fmt: skip
# Formats that no program scales its values up to the very end of.
_PLAIN: Final = frozenset({"float16", "bfloat16", "float32"})
_NEAR: Final = 0.99
_POSITIVE_ONLY: Final = frozenset({"sqrt", "rsqrt", "log", "log2", "log10"})
_REASONS: Final = {
    "atomic_add": "status_atomic_add",
    "integer_negation": "status_integer_negation",
    "integer_arithmetic": "status_integer_arithmetic",
    "float_overflow": "status_float_overflow",
    "negative_to_unsigned": "status_negative_to_unsigned",
    "conversion_to_float16": "status_conversion_to_float16",
    "cube_accumulation": "status_cube_accumulation",
}


@dataclasses.dataclass(frozen=True)
class HiddenScene(Scene):
    """An origin whose result looks finite.

    Attributes:
        stands_for: what the result would hold on a device that does not saturate.
        by: what betrayed it: the ``flag``, a ``status`` register, or the ``values``.
        reached: indices of the sites downstream of it, itself included.
    """

    stands_for: FaultKind = "inf"
    by: _By = "values"
    reached: frozenset[int] = frozenset()

    @property
    def kind(self) -> FaultKind:
        """What the origin's output would hold."""
        return self.stands_for

    @property
    def is_reported(self) -> bool:
        """Whether the device is known to saturate, or said itself that it did."""
        known = self.incident.settings.get("overflow_mode")
        return self.by != "values" or known == "saturation"

    def evidence(self, rule: str) -> tuple[Evidence, ...]:
        """Return what was seen of the device.

        Args:
            rule: id of what this would be on a device that does not saturate.
        """
        seen = []
        limit = format_of(self.site)
        if limit is not None and is_saturated(self.site, self.summary):
            seen.append(Evidence("saturated", {"max": limit.max}))
        elif self.by == "flag":
            seen.append(Evidence("flag_without_maximum"))
        elif self.by == "values":
            seen.append(Evidence("zero_for_nan", {"op": self.site.op}))
        if self.by == "flag":
            seen.append(Evidence("overflow_flag", {"op": self.site.op}))
        facts = dict(self.site.detail)
        for reason in str(facts.get("overflow_reasons", "")).split(","):
            if reason:
                fields = {"unit": str(facts["overflow_unit"]), "reason": reason}
                key = _REASONS.get(reason, "status_other")
                seen.append(Evidence(key, fields))
        seen.append(Evidence("stands_for", {"rule": rule}, seen=False))
        return tuple(seen)


def is_saturated(site: Site, summary: Summary | None) -> bool:
    """Whether a value reaches exactly to the end of its format, and not beyond.

    Example:
        >>> from numcheck.measure import Summary
        >>> from numcheck.record.site import Site
        >>> at_end = Summary(n=2, low=-1.0, high=65504.0, amax=65504.0)
        >>> is_saturated(Site(0, "mul", "forward", dtype="float16"), at_end)
        True
    """
    limit = format_of(site)
    if limit is None or limit.kind == "integer" or summary is None:
        return False
    return summary.amax == limit.max


def is_flagged(site: Site) -> bool:
    """Whether the device itself reported an overflow at this operator."""
    return _by_device(site) is not None


def hidden_faults(
    incident: Incident, provenance: Provenance
) -> tuple[HiddenScene, ...]:
    """Return the first operators that hide an overflow or a NaN, in execution order.

    What lies downstream of another one follows from it and is left out; so is what
    reaches nothing that the user keeps.
    """
    found: list[HiddenScene] = []
    behind: set[int] = set()
    places: set[tuple[object, ...]] = set()
    for site in provenance.view.trace.sites:
        by = _betrayed_by(incident, provenance, site)
        place = (site.op, site.source, site.phase)
        if by is None or site.index in behind or place in places:
            continue
        reached = _reached(provenance, site)
        harm = [s for s in provenance.view.kept() if s.index in reached]
        if harm:
            behind |= reached
            origin = Origin(site, "birth", tuple(sorted(harm, key=harm_rank)))
            held = _stands_for(site, provenance.view.summary(site))
            places.add(place)
            scene = HiddenScene(
                incident, provenance, origin, held, by, frozenset(reached)
            )
            found.append(scene)
    return tuple(found)


def _stands_for(site: Site, summary: Summary | None) -> FaultKind:
    if not is_saturated(site, summary) or summary is None:
        # Nothing at the end of the format: a NaN became 0, or the result of an inner
        # step overflowed. For a status register alone it may be either.
        return "inf" if summary is None else "nan"
    limit = summary.amax
    if summary.high == limit:
        return "inf" if summary.low == -(limit or 0.0) else "+inf"
    return "-inf"


def _by_device(site: Site) -> _By | None:
    facts = dict(site.detail)
    if "overflow_status" in facts:
        return "status"
    return "flag" if "overflow_flag" in facts else None


def _betrayed_by(incident: Incident, provenance: Provenance, site: Site) -> _By | None:
    if site.kind != "operator":
        return None
    reported = _by_device(site)
    view = provenance.view
    at_end = is_saturated(site, view.summary(site))
    if reported is not None:
        return None if _is_harmless(provenance, site, at_end=at_end) else reported
    known = incident.settings.get("overflow_mode")
    if known == "inf_nan" or site.dtype not in _PLAIN:
        return None
    if not at_end:
        return "values" if _has_sudden_zeros(provenance, site) else None
    if site.family not in _ARITHMETIC or site.effect not in ("compute", "cast"):
        return None
    return None if _was_given_the_end(provenance, site) else "values"


def _is_harmless(provenance: Provenance, site: Site, *, at_end: bool) -> bool:
    """Whether the device reports what it was told to do, or did to padding alone.

    A mask of -Inf becomes one of the lowest number where it is made, and adding it to
    scores goes beyond that by a little: the flag speaks of both, and nothing is lost.
    """
    facts = dict(site.detail)
    if "padded_operand" in facts and not at_end:
        return True
    if "overflow_flag" not in facts:
        return False
    if site.effect in ("move", "fill"):
        return True
    return site.family in ("add", "sub") and _was_given_the_end(provenance, site)


def _has_sudden_zeros(provenance: Provenance, site: Site) -> bool:
    """Whether an operator gave 0 for a negative number, of which it has no value."""
    name = site.op.removeprefix("aten.").partition(".")[0].strip("_")
    view = provenance.view
    held = view.summary(site)
    if name not in _POSITIVE_ONLY or held is None or not held.is_finite:
        return False
    given = [view.summary(p) for p in view.parents(site)]
    lows = [s.low for s in given if s is not None and s.low is not None]
    return bool(held.zero) and any(low < 0 for low in lows)


def _was_given_the_end(provenance: Provenance, site: Site) -> bool:
    """Whether the program itself brought the largest number, or Inf, as a mask say."""
    limit = format_of(site)
    if limit is None:
        return True
    view = provenance.view
    held = [s for p in view.parents(site) if (s := view.summary(p)) is not None]
    if any(s.pos_inf or s.neg_inf for s in held):
        return True
    given = [s.amax for s in held if s.amax is not None]
    given += [abs(v) for _, v in site.detail if isinstance(v, int | float)]
    # Wider operands may well lie beyond: that is what overflows in a cast.
    return any(limit.max * _NEAR <= amax <= limit.max for amax in given)


def _reached(provenance: Provenance, site: Site) -> set[int]:
    children = provenance.view.trace.children
    seen, queue = {site.index}, deque([site.index])
    while queue:
        for child in children.get(queue.popleft(), ()):
            if child not in seen:
                seen.add(child)
                queue.append(child)
    return seen
