# SPDX-License-Identifier: Apache-2.0
"""Which sites of a step hold NaN or Inf, and whether it came from arithmetic.

A value written on purpose (a mask of -inf, `full(inf)`) is *literal*. A non-finite
value is *real* when somewhere upstream an operator made one out of finite operands,
or a source brought one that no program writes on purpose.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["Health", "carriers", "examine", "is_floating"]

_FLOATING = ("float", "bfloat", "complex", "hif", "tf", "hf")


def is_floating(dtype: str) -> bool:
    """Whether values of the named format can be fractional (an empty name can).

    Example:
        >>> is_floating("bfloat16"), is_floating("int64")
        (True, False)
    """
    return not dtype or dtype.startswith(_FLOATING)


def carriers(site: Site) -> tuple[int, ...]:
    """Return the parents that a NaN or Inf of a site can have come from.

    A selection reads all its cases; where an adapter saw that it took nothing bad from
    one of them, it notes that one's place as ``spared``.
    """
    if site.family != "select":
        return site.parents
    spared = dict(site.detail).get("spared")
    if not isinstance(spared, str):
        return site.parents
    places = {int(place) for place in spared.split()}
    return tuple(p for i, p in enumerate(site.parents) if i not in places)


@dataclasses.dataclass(frozen=True, slots=True)
class Health:
    """What is wrong with each site of one step; every list is indexed by site.

    Attributes:
        nan: whether the value holds a NaN.
        inf: whether the value holds an Inf.
        nan_is_real: whether its NaN comes from arithmetic or a bad source.
        inf_is_real: whether its Inf does.
        only_moved: whether it is bad and its badness was only moved here from sources,
            no arithmetic in between.
    """

    nan: list[bool]
    inf: list[bool]
    nan_is_real: list[bool]
    inf_is_real: list[bool]
    only_moved: list[bool]

    def is_bad(self, index: int) -> bool:
        """Whether the site holds a NaN or an Inf."""
        return self.nan[index] or self.inf[index]

    def is_real(self, index: int) -> bool:
        """Whether what is bad about the site comes from arithmetic or a bad source."""
        return self.nan_is_real[index] or (
            self.inf_is_real[index] and not self.nan[index]
        )

    def bad_parents(self, site: Site) -> list[int]:
        """Return the parents of `site` that are bad."""
        return [p for p in dict.fromkeys(carriers(site)) if self.is_bad(p)]


def examine(view: StepView) -> Health:
    """Return the health of every site, in one pass in execution order."""
    n = len(view.trace.sites)
    health = Health(*([False] * n for _ in range(5)))
    for site in view.trace.sites:
        i = site.index
        health.nan[i], health.inf[i] = _held(site, view.summary(site), health)
        if health.nan[i]:
            health.nan_is_real[i] = _nan_is_real(site, health)
        if health.inf[i]:
            health.inf_is_real[i] = _inf_is_real(site, view.summary(site), health)
        if health.is_bad(i):
            health.only_moved[i] = _is_only_moved(site, health)
    return health


def _held(site: Site, summary: Summary | None, health: Health) -> tuple[bool, bool]:
    if summary is None:
        # Not measured: what cannot be seen passes through, so no path is cut.
        if not is_floating(site.dtype):
            return False, False
        earlier = [p for p in site.parents if p < site.index]
        return any(health.nan[p] for p in earlier), any(health.inf[p] for p in earlier)
    return bool(summary.has_nan), bool(summary.has_inf)


def _nan_is_real(site: Site, health: Health) -> bool:
    read = carriers(site)
    parents = [p for p in read if health.nan[p]]
    if parents:
        return any(health.nan_is_real[p] for p in parents)
    if site.kind == "source" or any(health.inf[p] for p in read):
        return True
    return not (site.effect in ("fill", "uninitialised") or "nan" in site.literals)


def _inf_is_real(site: Site, summary: Summary | None, health: Health) -> bool:
    read = carriers(site)
    parents = [p for p in read if health.inf[p]]
    if parents:
        return any(health.inf_is_real[p] for p in parents)
    if site.kind == "source":
        return not _is_written_on_purpose(site, summary)
    if any(health.nan[p] for p in read):
        return True
    written = "+inf" in site.literals or "-inf" in site.literals
    return not (site.effect in ("fill", "uninitialised") or written)


def _is_written_on_purpose(site: Site, summary: Summary | None) -> bool:
    """Whether a source's infinities are a mask, a neutral element or a start value."""
    if summary is None or summary.has_nan:
        return False
    if site.role in ("constant", "state"):
        return True
    if summary.has_pos_inf is not False:
        return False
    if site.role == "buffer":
        return True
    return summary.zero is not None and summary.zero == summary.finite


def _is_only_moved(site: Site, health: Health) -> bool:
    if site.kind == "source":
        return True
    bad = health.bad_parents(site)
    if not bad or (site.kind == "operator" and site.effect != "move"):
        return False
    return all(health.only_moved[p] for p in bad)
