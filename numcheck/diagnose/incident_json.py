# SPDX-License-Identifier: Apache-2.0
"""What is known of an incident, as JSON: the trace itself is kept beside it.

A kept incident can be diagnosed again by later rules.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from numcheck.diagnose.finding import Evidence
from numcheck.diagnose.incident import Experiment, Incident
from numcheck.record.site_json import (
    as_number,
    event_from_json,
    event_to_json,
    json_number,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.record.trace import Trace

__all__ = ["incident_from_json", "incident_to_json"]


def incident_to_json(incident: Incident) -> dict[str, Any]:
    """Return all of an incident but its trace as strict JSON values."""
    departures = incident.departures
    return {
        "reproduced": incident.reproduced,
        "experiments": [
            dataclasses.asdict(e) | {"fields": _written(e.fields)}
            for e in incident.experiments.values()
        ],
        "departures": None
        if departures is None
        else [[site, json_number(error)] for site, error in departures.items()],
        "history": [event_to_json(e) for e in incident.history],
        "settings": _written(incident.settings),
        "notes": [_evidence_to_json(e) for e in incident.notes],
        "batch": [_evidence_to_json(e) for e in incident.batch],
    }


def incident_from_json(trace: Trace, step: int, rank: int, known: Any) -> Incident:  # noqa: ANN401 - whatever the file holds
    """Return the incident that `incident_to_json` wrote.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: `known` is not one.
    """
    departures = known["departures"]
    experiments = [
        Experiment(**(e | {"fields": _read(e["fields"])})) for e in known["experiments"]
    ]
    return Incident(
        trace,
        step,
        rank,
        reproduced=known["reproduced"],
        experiments={e.name: e for e in experiments},
        departures=None
        if departures is None
        else _departures(departures, len(trace.sites)),
        history=tuple(event_from_json(e) for e in known["history"]),
        settings=_read(known["settings"]),
        notes=tuple(map(_evidence_from_json, known["notes"])),
        batch=tuple(map(_evidence_from_json, known.get("batch", ()))),
    )


def _departures(known: Any, sites: int) -> dict[int, float]:  # noqa: ANN401 - whatever the file holds
    """Return each site's departure; of sites whose record is lost there is none."""
    read = ((int(site), float(error)) for site, error in known)
    return {site: error for site, error in read if 0 <= site < sites}


def _evidence_to_json(evidence: Evidence) -> dict[str, Any]:
    fields = _written(evidence.fields)
    return {"key": evidence.key, "fields": fields, "seen": evidence.seen}


def _evidence_from_json(known: Any) -> Evidence:  # noqa: ANN401 - whatever the file holds
    return Evidence(known["key"], _read(known["fields"]), known["seen"])


def _written(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json_number(value) for name, value in fields.items()}


def _read(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: as_number(value) for name, value in fields.items()}
