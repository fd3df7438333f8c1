# SPDX-License-Identifier: Apache-2.0
"""Sites and events as JSON lines. Non-finite numbers are written as strings."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from numcheck.record.site import Site, SourceLine
from numcheck.record.trace import Event

__all__ = [
    "as_number",
    "event_from_json",
    "event_to_json",
    "json_line",
    "json_number",
    "site_from_json",
    "site_to_json",
]

_DEFAULTS = {f.name: f.default for f in dataclasses.fields(Site)}
_TUPLES = ("shape", "parents", "literals", "iteration")


def json_number(value: float | str) -> int | float | str:
    """Return a number JSON can hold, or its name when it is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def as_number(value: float | str) -> int | float | str:
    """Return the number that `json_number` wrote; other text stays text."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def json_line(values: dict[str, Any]) -> bytes:
    """Return one line of strict JSON with its line end."""
    text = json.dumps(values, allow_nan=False, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def site_to_json(site: Site) -> dict[str, Any]:
    """Return a site's fields that differ from their defaults."""
    row: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        value = getattr(site, name)
        if value != default:
            row[name] = value
    if site.source is not None:
        row["source"] = dataclasses.asdict(site.source)
    if site.detail:
        row["detail"] = [[name, json_number(value)] for name, value in site.detail]
    return row


def site_from_json(row: dict[str, Any]) -> Site:
    """Return the site a row describes; fields of later versions are ignored.

    Raises:
        KeyError, TypeError, ValueError: the row is not a site's.
    """
    known: dict[str, Any] = {k: v for k, v in row.items() if k in _DEFAULTS}
    for name in _TUPLES:
        if name in known:
            known[name] = tuple(known[name])
    if "source" in known:
        known["source"] = SourceLine(**known["source"])
    if "detail" in known:
        known["detail"] = tuple((n, as_number(v)) for n, v in known["detail"])
    return Site(**known)


def event_to_json(event: Event) -> dict[str, Any]:
    """Return an event as JSON values."""
    row = dataclasses.asdict(event)
    return row | {"value": json_number(event.value)}


def event_from_json(row: dict[str, Any]) -> Event:
    """Return the event a row describes."""
    value = as_number(row["value"])
    return Event(str(row["name"]), int(row["step"]), value, int(row.get("rank", 0)))
