# SPDX-License-Identifier: Apache-2.0
"""A note on how a training goes: it accuses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck.diagnose.finding import Advice, Evidence, Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.diagnose.finding import Field
    from numcheck.diagnose.incident import Incident
    from numcheck.record.site import Site

__all__ = ["note"]


def note(
    incident: Incident,
    rule: str,
    site: Site,
    fields: Mapping[str, Field],
    seen: str,
    advice: tuple[str, ...],
) -> Finding:
    """Return a note whose evidence, by the key `seen`, has the title's fields."""
    return Finding(
        id=rule,
        severity="note",
        site=site,
        step=incident.step,
        kind="drift",
        rank=incident.rank,
        fields=fields,
        evidence=(Evidence(seen, fields),),
        help=tuple(Advice(key, "possible") for key in advice),
    )
