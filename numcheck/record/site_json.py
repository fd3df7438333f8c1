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
    "placed",
    "site_from_json",
    "site_to_json",
]

_DEFAULTS = {f.name: f.default for f in dataclasses.fields(Site)}
_TUPLES = ("shape", "parents", "literals", "iteration")
_TEXTS = ("op", "phase", *(n for n, d in _DEFAULTS.items() if isinstance(d, str)))
_NUMBERS = ("index", "output")


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
    for name in _TEXTS:
        _expect(known.get(name, ""), str, name)
    for name in _NUMBERS:
        _expect(known.get(name, 0), int, name)
    for number in (*known.get("shape", ()), *known.get("parents", ())):
        _expect(number, int, "shape and parents")
    if "source" in known:
        source = known["source"] = SourceLine(**known["source"])
        _expect(source.line, int, "line")
        for part in (source.file, source.function, source.text):
            _expect(part, str, "source")
    if "detail" in known:
        known["detail"] = tuple((n, as_number(v)) for n, v in known["detail"])
    return Site(**known)


def _expect(value: object, kind: type, name: str) -> None:
    if type(value) is not kind:
        msg = f"{name} must be {kind.__name__}, got {type(value).__name__}"
        raise TypeError(msg)


def placed(site: Site, index: int) -> Site:
    """Return a site as the one at `index`: what it reads comes before it."""
    parents = tuple(p for p in site.parents if 0 <= p < index)
    if site.index == index and parents == site.parents:
        return site
    return dataclasses.replace(site, index=index, parents=parents)


def event_to_json(event: Event) -> dict[str, Any]:
    """Return an event as JSON values."""
    row = dataclasses.asdict(event)
    return row | {"value": json_number(event.value)}


def event_from_json(row: dict[str, Any]) -> Event:
    """Return the event a row describes.

    Raises:
        KeyError, TypeError, ValueError, OverflowError: the row is not an event's.
    """
    value = as_number(row["value"])
    if not isinstance(value, str):
        value = float(value) if isinstance(value, float) else int(value)
        float(value)  # a number that no float holds is none of ours
    return Event(str(row["name"]), int(row["step"]), value, int(row.get("rank", 0)))
