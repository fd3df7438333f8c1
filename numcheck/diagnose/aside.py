# SPDX-License-Identifier: Apache-2.0
"""NaN in values that a step returns beside its training: a metric of no examples."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from numcheck.diagnose.ancestry import source_of
from numcheck.diagnose.harm import is_benign
from numcheck.diagnose.provenance import origins_of

if TYPE_CHECKING:
    from numcheck.diagnose.health import Health
    from numcheck.diagnose.provenance import Origin, Provenance
    from numcheck.record.site import Site
    from numcheck.record.trace import StepView

__all__ = ["lost_aside"]

_TRAINING = ("loss", "gradient", "parameter", "state", "buffer", "checked")


def lost_aside(provenance: Provenance) -> tuple[Origin, ...]:
    """Return where the NaN of returned values was born that nothing else depends on.

    What training reads as well, and is none the worse for, has its NaN where the
    program masks it; an Inf may be meant.
    """
    if provenance.harmed:
        return ()
    view, health = provenance.view, provenance.health
    lost = tuple(
        site
        for site in view.kept()
        if site.role == "output"
        and health.nan[site.index]
        and not is_benign(site, health)
        and not _may_be_written(view, health, site)
    )
    found = origins_of(view, health, lost)
    return tuple(o for o in found if o.kind == "birth" and not _trains(provenance, o))


def _may_be_written(view: StepView, health: Health, returned: Site) -> bool:
    """Whether a selection on the way had a NaN to take that the program wrote.

    Whoever writes one for a class without examples expects to read it.
    """
    seen, queue = {returned.index}, deque([returned])
    while queue:
        site = queue.popleft()
        bad = [view.trace.sites[p] for p in health.bad_parents(site)]
        if site.family == "select" and (
            "nan" in site.literals or any(_is_written(view, health, p) for p in bad)
        ):
            return True
        queue.extend(p for p in bad if p.index not in seen)
        seen.update(p.index for p in bad)
    return False


def _is_written(view: StepView, health: Health, case: Site) -> bool:
    """Whether a case of a selection holds NaN that no arithmetic made."""
    source = source_of(view, case)
    is_constant = source is not None and source.role == "constant"
    is_real = health.nan_is_real[case.index] and not is_constant
    return health.nan[case.index] and not is_real


def _trains(provenance: Provenance, origin: Origin) -> bool:
    """Whether a value that training needs was made with what the origin gave."""
    trace = provenance.view.trace
    seen, queue = {origin.site.index}, deque([origin.site.index])
    while queue:
        for child in trace.children.get(queue.popleft(), ()):
            if trace.sites[child].role in _TRAINING:
                return True
            if child not in seen:
                seen.add(child)
                queue.append(child)
    return False
