# SPDX-License-Identifier: Apache-2.0
"""Scalars of a sampled step: headrooms, the size of the update, embedding norms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from numcheck.diagnose.ancestry import source_of
from numcheck.diagnose.dynamics.headroom import tightest
from numcheck.diagnose.first_steps import UPDATE_RATIO

if TYPE_CHECKING:
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["EMBEDDING", "embeddings", "sampled", "update_ratio"]

EMBEDDING: Final = "embedding_norm "


def sampled(view: StepView) -> dict[str, float]:
    """Return what a step that was recorded whole adds to the run's scalars, by name.

    The names are stable from step to step, so that rules can follow them.
    """
    found = tightest(view)
    ratio = update_ratio(view)
    if ratio is not None:
        found[UPDATE_RATIO] = ratio
    for name, site in embeddings(view).items():
        norm = _norm(view, site)
        if norm is not None:
            found[f"{EMBEDDING}{name}"] = norm
    return found


def embeddings(view: StepView) -> dict[str, Site]:
    """Return the tables of parameters from which rows are picked by number."""
    found: dict[str, Site] = {}
    for site in view.trace.sites:
        parents = list(view.parents(site))
        if site.family != "gather" or site.phase != "forward" or len(parents) < 2:
            continue
        table, index = source_of(view, parents[0]), parents[1]
        by_number = index.dtype.startswith(("int", "uint")) and index.shape
        if table is None or table.role != "parameter" or len(table.shape) != 2:
            continue
        if by_number:
            found.setdefault(table.op.removeprefix("parameter:"), table)
    return found


def update_ratio(view: StepView) -> float | None:
    """Return the largest change of a weight as a share of the weight, by their norms.

    Vectors are left out: biases start at zero. Where the change itself is no value of
    the program, the change of the norm is taken, which is never larger.
    """
    before: dict[str, Site] = {}
    for site in view.trace.sites:
        if site.kind == "source" and site.role == "parameter":
            before.setdefault(site.op, site)
    ratios: list[float] = []
    for kept in view.kept():
        old = before.get(kept.op)
        if old is None or kept.role != "parameter" or len(kept.shape) < 2:
            continue
        was, now = _norm(view, old), _norm(view, kept)
        if not was or now is None:
            continue
        change = _added(view, kept, old.op)
        ratios.append((abs(now - was) if change is None else change) / was)
    return max(ratios, default=None)


def _added(view: StepView, kept: Site, name: str) -> float | None:
    """Return the norm of what an addition put onto a weight; None for other updates."""
    site = kept
    while site.kind == "kept" or (site.effect == "move" and len(site.parents) == 1):
        if not site.parents:
            return None
        site = view.trace.sites[site.parents[0]]
    parents = list(view.parents(site))
    if site.family not in ("add", "sub") or len(parents) != 2:
        return None
    sources = [source_of(view, parent) for parent in parents]
    others = [
        parent
        for parent, source in zip(parents, sources, strict=True)
        if source is None or source.op != name
    ]
    if len(others) != 1 or others[0].shape != kept.shape:
        return None
    norm, alpha = _norm(view, others[0]), dict(site.detail).get("alpha", 1.0)
    is_known = norm is not None and isinstance(alpha, int | float)
    return abs(float(alpha)) * norm if is_known and norm is not None else None


def _norm(view: StepView, site: Site) -> float | None:
    held = view.summary(site)
    if held is None or held.total_sq is None or held.is_finite is False:
        return None
    return math.sqrt(held.total_sq)
