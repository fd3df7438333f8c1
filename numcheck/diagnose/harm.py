# SPDX-License-Identifier: Apache-2.0
"""Which of the values handed back to the user a non-finite value has harmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numcheck.diagnose.health import Health
    from numcheck.record.site import Role, Site
    from numcheck.record.trace import StepView

__all__ = ["harm_rank", "harmed", "is_benign"]

_ORDER: tuple[Role, ...] = (
    "loss",
    "gradient",
    "parameter",
    "output",
    "checked",
    "state",
    "buffer",
)

_EXTREMES = ("amin", "amax")


def harm_rank(site: Site) -> tuple[int, int]:
    """Return a sort key: what matters most to the user comes first."""
    place = _ORDER.index(site.role) if site.role in _ORDER else len(_ORDER)
    return place, site.index


def harmed(
    view: StepView, health: Health, *, searches_scale: bool = False
) -> tuple[Site, ...]:
    """Return the kept values that were harmed, most important first.

    Args:
        view: the step.
        health: what is wrong with each of its sites.
        searches_scale: whether a dynamic loss scale is in play; overflowing gradients
            are then how it finds its scale, as long as the loss itself is finite.
    """
    kept = view.kept()
    loss = [s for s in kept if s.role == "loss"]
    loss_is_finite = bool(loss) and not any(health.is_bad(s.index) for s in loss)
    learned = [s for s in kept if s.role in ("gradient", "parameter")]
    training_is_finite = (
        loss_is_finite
        and bool(learned)
        and not any(health.is_bad(s.index) for s in learned)
    )
    found = []
    for site in kept:
        if not health.is_bad(site.index):
            continue
        if site.role in ("output", "state", "buffer"):
            if (
                is_benign(site, health)
                or _was_infinite(view, site)
                or (site.role == "output" and training_is_finite)
            ):
                continue
        elif searches_scale and loss_is_finite and site.role != "loss":
            continue
        found.append(site)
    return tuple(sorted(found, key=harm_rank))


def is_benign(site: Site, health: Health) -> bool:
    """Whether a returned value only repeats what was written or given on purpose."""
    return health.only_moved[site.index] or not health.is_real(site.index)


def _was_infinite(view: StepView, buffer: Site) -> bool:
    """Whether a buffer came in with as many Inf: a minimum of what was never seen.

    An average that is Inf stays so as well, but that is arithmetic, and harms.
    """
    if buffer.role != "buffer" or not _is_chosen(_maker(view, buffer)):
        return False
    now = _infinities(view, buffer)
    return any(
        (was := _infinities(view, site)) is not None and now is not None and was >= now
        for site in view.trace.sites
        if site.kind == "source" and site.role == "buffer" and site.op == buffer.op
    )


def _is_chosen(maker: Site) -> bool:
    """Whether an operator hands on one of the numbers that it reads."""
    reduction = dict(maker.detail).get("reduce")
    return maker.effect == "move" or maker.family == "select" or reduction in _EXTREMES


def _maker(view: StepView, kept: Site) -> Site:
    """Return the operator that made a kept value, before it was only written."""
    site = kept
    while len(site.parents) == 1 and (site is kept or site.effect in ("move", "cast")):
        site = view.trace.sites[site.parents[0]]
    return site


def _infinities(view: StepView, site: Site) -> int | None:
    """Return the number of Inf in a value without NaN; None where not known."""
    held = view.summary(site)
    if held is None or held.nan != 0 or held.pos_inf is None or held.neg_inf is None:
        return None
    return held.pos_inf + held.neg_inf
