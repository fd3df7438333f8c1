# SPDX-License-Identifier: Apache-2.0
"""Where the non-finite values that did harm were born.

The walk goes backwards from the harmed values, never forwards from the first
non-finite value seen: what dies on the way (a mask, a discarded branch) is no fault.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import TYPE_CHECKING, Literal

from numcheck.diagnose.harm import harm_rank, harmed
from numcheck.diagnose.health import carriers, examine
from numcheck.diagnose.vanished import behind_zeros

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numcheck.diagnose.health import Health
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["Origin", "OriginKind", "Provenance", "origins_of", "trace_back"]

OriginKind = Literal["birth", "source", "literal", "made_from_literal"]
_MOST_STARTS = 32  # each costs one walk; more independent faults in a step tell no more
_State = tuple[int, Literal["nan", "inf"]]


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """A site where a harmful non-finite value began.

    Attributes:
        site: the site.
        kind: ``birth`` out of finite operands; ``source`` it was given bad;
            ``literal`` the program wrote it; ``made_from_literal`` a NaN that an
            operator made out of infinities written on purpose.
        harm: kept values it reached, most important first.
    """

    site: Site
    kind: OriginKind
    harm: tuple[Site, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Provenance:
    """Everything the data flow says about one step.

    Attributes:
        view: the step.
        health: what is wrong with each site.
        harmed: kept values that were harmed, most important first.
        origins: independent origins, the one that explains most harm first.
        masked: births that reached no harmed value.
        bridges: finite sites on the way from an infinity to the pole that met its end.
    """

    view: StepView
    health: Health
    harmed: tuple[Site, ...]
    origins: tuple[Origin, ...]
    masked: tuple[Site, ...]
    bridges: frozenset[int] = frozenset()


def trace_back(view: StepView, *, searches_scale: bool = False) -> Provenance:
    """Return where the harm of a step began. Linear in the sites and edges."""
    health = examine(view)
    hurt = harmed(view, health, searches_scale=searches_scale)
    seen, starts, bridges = _walk(view, health, hurt)
    births = [s for s in view.trace.sites if _is_birth(s, health)]
    return Provenance(
        view=view,
        health=health,
        harmed=hurt,
        origins=_independent(view, health, starts, hurt, bridges),
        masked=tuple(s for s in births if s.index not in seen),
        bridges=frozenset(bridges),
    )


def origins_of(
    view: StepView, health: Health, hurt: tuple[Site, ...]
) -> tuple[Origin, ...]:
    """Return where what is bad about the given values began."""
    _, starts, bridges = _walk(view, health, hurt)
    return _independent(view, health, starts, hurt, bridges)


def _walk(
    view: StepView, health: Health, hurt: Iterable[Site]
) -> tuple[set[int], set[int], set[int]]:
    """Return every bad site upstream of the harm, those where it began, and bridges."""
    queue: deque[_State] = deque(
        (s.index, "nan" if health.nan[s.index] else "inf") for s in hurt
    )
    seen, starts = set(queue), set()
    bridges: set[int] = set()
    while queue:
        index, _ = state = queue.popleft()
        site = view.trace.sites[index]
        upstream = _upstream(site, state, health)
        if not upstream and not health.bad_parents(site):
            hidden = behind_zeros(view, health, site)
            bridges.update(*hidden.values())
            upstream = [(p, "inf") for p in hidden]
        if not upstream:
            starts.add(index)
        for nxt in upstream:
            if nxt not in seen:
                seen.add(nxt)
                queue.append(nxt)
    return {index for index, _ in seen}, starts, bridges


def _upstream(site: Site, state: _State, health: Health) -> list[_State]:
    """Return the parents that explain why `site` holds a NaN or an Inf."""
    read = dict.fromkeys(carriers(site))
    nan = [p for p in read if health.nan[p]]
    inf = [p for p in read if health.inf[p]]
    real = [p for p in inf if health.inf_is_real[p]]
    if state[1] == "nan":
        if nan:
            return [(p, "nan") for p in nan]
        # A NaN made of infinities: of arithmetic ones, they are the story; of ones
        # written on purpose, this operator is.
        return [(p, "inf") for p in real]
    if inf:
        return [(p, "inf") for p in (real or inf)]
    return [(p, "nan") for p in nan]


def _is_birth(site: Site, health: Health) -> bool:
    if site.kind != "operator" or not health.is_bad(site.index):
        return False
    return not health.bad_parents(site) and health.is_real(site.index)


def _kind_of(site: Site, health: Health) -> OriginKind:
    if site.kind == "source":
        return "source"
    if health.bad_parents(site):
        return "made_from_literal"
    if health.is_real(site.index):
        written_inf = "+inf" in site.literals or "-inf" in site.literals
        return "made_from_literal" if written_inf else "birth"
    return "literal"


def _independent(
    view: StepView,
    health: Health,
    starts: Iterable[int],
    hurt: tuple[Site, ...],
    bridges: set[int],
) -> tuple[Origin, ...]:
    """Keep one origin for each chain of events, dropping what follows from it."""
    # The same operator of the same line (a loop, a list of parameters) tells one story.
    first_at: dict[tuple[object, ...], Site] = {}
    for index in sorted(starts):
        site = view.trace.sites[index]
        first_at.setdefault(_place(site), site)
    ranked = [
        Origin(
            site,
            _kind_of(site, health),
            _reached(view, health, site.index, hurt, bridges),
        )
        for site in list(first_at.values())[:_MOST_STARTS]
    ]
    ranked.sort(key=_importance)
    kept: list[Origin] = []
    downstream: set[int] = set()
    for origin in ranked:
        at = next((i for i, k in enumerate(kept) if _is_slope(origin.site, k.site)), -1)
        if at >= 0:
            both = {s.index for s in (*kept[at].harm, *origin.harm)}
            harm = tuple(s for s in hurt if s.index in both)
            kept[at] = dataclasses.replace(kept[at], harm=harm)
        elif origin.site.index not in downstream:
            kept.append(origin)
            _spread(view, origin.site.index, downstream)
    return tuple(kept)


def _is_slope(site: Site, forward: Site) -> bool:
    """Whether an operator differentiates another, which broke in the same place."""
    if site.phase != "backward" or site.source is None:
        return False
    op = next((value for name, value in site.detail if name == "forward_op"), None)
    return op == forward.op and site.source == forward.source


def _importance(origin: Origin) -> tuple[int, bool, int]:
    harm = harm_rank(origin.harm[0])[0] if origin.harm else len(origin.harm) + 9
    return harm, origin.kind != "source", origin.site.index


def _place(site: Site) -> tuple[object, ...]:
    if site.kind == "source":
        return ("source", site.role)
    # What is computed again in the backward breaks again.
    phase = "forward" if site.phase == "recompute" else site.phase
    return site.op, site.source, phase


def _spread(view: StepView, start: int, into: set[int]) -> None:
    """Add everything downstream of `start` in the data flow to `into`."""
    children = view.trace.children
    queue = deque(children.get(start, ()))
    while queue:
        index = queue.popleft()
        if index not in into:
            into.add(index)
            queue.extend(children.get(index, ()))


def _reached(
    view: StepView,
    health: Health,
    start: int,
    hurt: tuple[Site, ...],
    bridges: set[int],
) -> tuple[Site, ...]:
    """Return the harmed values to which bad values lead from `start`."""
    children = view.trace.children
    seen, queue = {start}, deque([start])
    while queue:
        for child in children.get(queue.popleft(), ()):
            leads_on = health.is_bad(child) or child in bridges
            if child not in seen and leads_on:
                seen.add(child)
                queue.append(child)
    return tuple(s for s in hurt if s.index in seen)
