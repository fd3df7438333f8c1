# SPDX-License-Identifier: Apache-2.0
"""Findings as strict JSON values and back.

Numbers that are not finite are the strings ``NaN``, ``Inf`` and ``-Inf``. Fields with
their default value are left out; readers ignore keys they do not know.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final, get_args

from numcheck.diagnose.finding import (
    Advice,
    Cause,
    CauseClass,
    Certainty,
    Evidence,
    Fact,
    FaultKind,
    Finding,
    Severity,
)
from numcheck.errors import ArgumentError
from numcheck.measure.summary import Summary
from numcheck.record.damage import DAMAGE
from numcheck.record.site import Site, SourceLine

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["finding_from_json", "finding_to_json", "number_to_json", "summary_to_json"]

_NAMES: Final = {"NaN": math.nan, "Inf": math.inf, "-Inf": -math.inf}
_CLOSED: Final[Mapping[str, tuple[str, ...]]] = {
    "severity": get_args(Severity),
    "kind": get_args(FaultKind),
    "cls": get_args(CauseClass),
    "certainty": get_args(Certainty),
}


def number_to_json(value: float | str | None) -> float | str | None:
    """Return a value JSON can hold: the name of a number that is not finite.

    Example:
        >>> number_to_json(float("inf")), number_to_json(2.5)
        ('Inf', 2.5)
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
    return value


def _number(value: Any) -> Any:  # noqa: ANN401 - a field's value
    return _NAMES.get(value, value) if isinstance(value, str) else value


def summary_to_json(summary: Summary) -> dict[str, Any]:
    """Return what was measured; a field that was not is left out."""
    row: dict[str, Any] = {}
    for field in dataclasses.fields(Summary):
        value = getattr(summary, field.name)
        if field.name == "exponents" and value is not None:
            row["exponents"] = {str(e): int(n) for e, n in value.items()}
        elif value is not None:
            row[field.name] = number_to_json(value)
    return row


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON values, everything in it included.

    Example:
        >>> site = Site(0, "log", "forward")
        >>> row = finding_to_json(Finding("N301", "error", site, step=2, kind="nan"))
        >>> row["id"], row["site"]
        ('N301', {'index': 0, 'op': 'log', 'phase': 'forward'})
    """
    row = _without_defaults(finding)
    row |= {"site": _site_to_json(finding.site), "fields": _fields(finding.fields)}
    row["facts"] = [
        _without_defaults(f) | {"summary": summary_to_json(f.summary)}
        for f in finding.facts
    ]
    row["chain"] = [
        {
            "site": _site_to_json(site),
            "summary": None if summary is None else summary_to_json(summary),
        }
        for site, summary in finding.chain
    ]
    for name in ("harm", "masked"):
        row[name] = [_site_to_json(site) for site in getattr(finding, name)]
    for name in ("evidence", "help"):
        row[name] = [
            _without_defaults(item) | {"fields": _fields(item.fields)}
            for item in getattr(finding, name)
        ]
    cause = finding.cause
    row["cause"] = (
        None
        if cause is None
        else _without_defaults(cause) | {"fields": _fields(cause.fields)}
    )
    return row


def _without_defaults(data: Any) -> dict[str, Any]:  # noqa: ANN401 - any of the dataclasses
    return {
        f.name: getattr(data, f.name)
        for f in dataclasses.fields(data)
        if getattr(data, f.name) != f.default
    }


def _fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: number_to_json(value) for name, value in fields.items()}


def _site_to_json(site: Site) -> dict[str, Any]:
    row = _without_defaults(site)
    for name in ("shape", "parents", "literals", "iteration"):
        if name in row:
            row[name] = list(row[name])
    if site.source is not None:
        row["source"] = dataclasses.asdict(site.source)
    if site.detail:
        row["detail"] = [[name, number_to_json(value)] for name, value in site.detail]
    return row


def finding_from_json(row: Any) -> Finding:  # noqa: ANN401 - whatever a file holds
    """Return the finding that `finding_to_json` wrote.

    Raises:
        ArgumentError: `row` does not describe a finding; the text says what is wrong.
    """
    try:
        return _finding(row)
    except DAMAGE as error:
        msg = f"not a finding as JSON: {type(error).__name__}: {error}"
        raise ArgumentError(msg) from error


def _finding(row: Mapping[str, Any]) -> Finding:
    known = _known(Finding, row)
    cause = known.get("cause")
    known |= {
        "site": _site(row["site"]),
        "fields": _read_fields(row),
        "facts": tuple(
            Fact(**_known(Fact, f) | {"summary": _summary(f["summary"])})
            for f in row.get("facts", ())
        ),
        "chain": tuple(
            (_site(c["site"]), None if c["summary"] is None else _summary(c["summary"]))
            for c in row.get("chain", ())
        ),
        "harm": tuple(map(_site, row.get("harm", ()))),
        "masked": tuple(map(_site, row.get("masked", ()))),
        "evidence": tuple(_with_fields(Evidence, e) for e in row.get("evidence", ())),
        "help": tuple(_with_fields(Advice, a) for a in row.get("help", ())),
        "cause": None if cause is None else _with_fields(Cause, cause),
    }
    return Finding(**known)


def _known(cls: type[Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row's keys that `cls` has, its closed sets checked."""
    known = {f.name: row[f.name] for f in dataclasses.fields(cls) if f.name in row}
    for name, allowed in _CLOSED.items():
        if name in known and cls is not Site and known[name] not in allowed:
            msg = f"{name} must be one of {', '.join(allowed)}; got {known[name]!r}"
            raise ValueError(msg)
    return known


def _with_fields(cls: type[Any], row: Mapping[str, Any]) -> Any:  # noqa: ANN401 - an instance of `cls`
    return cls(**_known(cls, row) | {"fields": _read_fields(row)})


def _read_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(value) for name, value in row.get("fields", {}).items()}


def _summary(row: Mapping[str, Any]) -> Summary:
    known = {name: _number(value) for name, value in _known(Summary, row).items()}
    if known.get("exponents") is not None:
        known["exponents"] = {int(e): int(n) for e, n in known["exponents"].items()}
    return Summary(**known)


def _site(row: Mapping[str, Any]) -> Site:
    known = _known(Site, row)
    for name in ("shape", "parents", "literals", "iteration"):
        if name in known:
            known[name] = tuple(known[name])
    if known.get("source") is not None:
        known["source"] = SourceLine(**_known(SourceLine, known["source"]))
    if "detail" in known:
        known["detail"] = tuple((n, _number(v)) for n, v in known["detail"])
    return Site(**known)
