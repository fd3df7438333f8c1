# SPDX-License-Identifier: Apache-2.0
"""The places at which two runs can be compared.

Operators differ between frameworks and devices (one fused, the other in pieces), so
runs meet at what both must compute: parameters, the outputs of modules, the loss,
returned outputs and gradients. Two traces of one framework also meet at operators.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from numcheck.comparison.names import canonical

if TYPE_CHECKING:
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["Point", "PointKind", "points"]

PointKind = Literal["given", "parameter", "module", "kept", "operator"]


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One comparable value of one run.

    Attributes:
        kind: what sort of value it is; only equal kinds are compared.
        path: canonical name (`numcheck.comparison.names`), with the how-many-th
            occurrence of that name last where there are several.
        site: the site that holds the value.
        summary: what it held.
        order: position in execution.
    """

    kind: PointKind
    path: tuple[str, ...]
    site: Site
    summary: Summary
    order: int


def points(view: StepView, *, operators: bool = False) -> list[Point]:
    """Return the comparable points of a step, in execution order.

    Args:
        view: a step of a trace.
        operators: also every operator, for two traces of one framework.
    """
    found: list[Point] = []
    seen: dict[tuple[str, tuple[str, ...]], int] = {}
    ends = _module_ends(view)
    for site in view.trace.sites:
        summary = view.summary(site)
        if summary is None or not _is_measured(summary):
            continue
        for kind, path in _names(
            site, ends_module=site.index in ends, operators=operators
        ):
            if kind == "parameter" and (kind, path) in seen:
                continue  # read again by another phase: still what the step was given
            count = seen[kind, path] = seen.get((kind, path), -1) + 1
            full = (*path, f"#{count}") if count else path
            found.append(Point(kind, full, site, summary, site.index))
    return found


def _is_measured(summary: Summary) -> bool:
    """Whether it holds more than a number of elements, if there are any."""
    known = (summary.amax, summary.low, summary.nan)
    return summary.n == 0 or any(value is not None for value in known)


def _names(
    site: Site, *, ends_module: bool, operators: bool
) -> list[tuple[PointKind, tuple[str, ...]]]:
    kind, _, name = site.op.partition(":")
    if site.kind == "source":
        role: PointKind = "parameter" if site.role == "parameter" else "given"
        return [(role, (site.role, *canonical(name)))]
    if site.kind == "kept":
        return [("kept", (kind, *canonical(name)))]
    names: list[tuple[PointKind, tuple[str, ...]]] = []
    if ends_module:
        names.append(("module", canonical(site.scope)))
    if operators:
        op = (*canonical(site.scope), site.phase, site.op, str(site.output))
        names.append(("operator", op))
    return names


def _module_ends(view: StepView) -> frozenset[int]:
    """Return the operator that gives each module's output.

    That is the last one of the module whose value is read outside it. Sites of a run
    may be out of order (what one recording left out another added later), so being
    the last of the module alone tells little. Further outputs of an operator (a layer
    norm's statistics) are not the module's.
    """
    last: dict[str, tuple[bool, int]] = {}
    for site in view.trace.sites:
        is_value = site.kind == "operator" and site.phase == "forward"
        if not (is_value and site.scope and site.output == 0):
            continue
        if view.summary(site) is not None:
            found = _is_read_outside(view, site), site.index
            last[site.scope] = max(last.get(site.scope, found), found)
    return frozenset(index for _, index in last.values())


def _is_read_outside(view: StepView, site: Site) -> bool:
    readers = (view.trace.sites[i] for i in view.trace.children.get(site.index, ()))
    inside = (site.scope + ".", site.scope + "/")
    return any(
        r.scope != site.scope and not r.scope.startswith(inside) for r in readers
    )
