# SPDX-License-Identifier: Apache-2.0
"""The report as SARIF 2.1.0, the chain of values as a code flow."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numcheck
from numcheck.report.chain import reading_line
from numcheck.report.figures import bits_text, headroom_bits
from numcheck.report.messages import has_text, language, text
from numcheck.report.naming import chain_name, held, source_path
from numcheck.report.printable import printable
from numcheck.report.prose import Prose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.diagnose.finding import Finding
    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site, SourceLine
    from numcheck.report.content import Content

__all__ = ["sarif_report"]

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT: Final = "SRCROOT"
_TAGS: Final = {"en": "en-US", "zh": "zh-CN"}


def sarif_report(content: Content, lang: str | None = None) -> str:
    """Return the findings as a SARIF 2.1.0 log with one run.

    Args:
        content: findings and what is known around them.
        lang: language of the messages.
    """
    lang = language(lang)
    rules = list(dict.fromkeys(f.id for f in content.findings))
    notes = [{"level": "note", "message": _m(t)} for t in content.coverage.unseen(lang)]
    run = {
        "tool": {
            "driver": {
                "name": "numcheck",
                "version": numcheck.__version__,
                "rules": [_rule(rule, lang) for rule in rules],
            }
        },
        "language": _TAGS[lang],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": _m("the working directory")}},
        "invocations": [
            {"executionSuccessful": True, "toolExecutionNotifications": notes}
        ],
        "results": [_result(f, rules, lang) for f in content.findings],
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def _m(sentence: str) -> dict[str, str]:
    return {"text": sentence}


def _rule(rule: str, lang: str) -> dict[str, Any]:
    row: dict[str, Any] = {"id": rule}
    if has_text(f"rule.{rule}.name"):
        row["shortDescription"] = _m(text(f"rule.{rule}.name", lang))
    row["help"] = _m(text("report.help_line.explain", lang, rule=rule))
    return row


def _result(finding: Finding, rules: Sequence[str], lang: str) -> dict[str, Any]:
    prose = Prose(finding, lang)
    row: dict[str, Any] = {
        "ruleId": finding.id,
        "ruleIndex": rules.index(finding.id),
        "level": finding.severity,
        "message": _m("\n".join(_sentences(prose))),
        "locations": [_origin(finding, prose.mark())],
        "occurrenceCount": finding.count,
        "partialFingerprints": {"numcheckOrigin/v1": _fingerprint(finding)},
        "properties": _properties(finding),
    }
    if finding.chain:
        steps = [_flow_step(*link) for link in finding.chain]
        row["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    if finding.harm:
        label = prose.label("harm")
        row["relatedLocations"] = [
            _location(site, label + printable(site.op)) for site in finding.harm
        ]
    return row


def _sentences(prose: Prose) -> list[str]:
    cause = prose.label("cause") + prose.cause()
    help_ = [prose.label("help") + sentence for sentence in prose.help()]
    return [prose.title(), cause, *help_]


def _properties(finding: Finding) -> dict[str, Any]:
    cause = finding.cause
    return {
        "step": finding.step,
        "rank": finding.rank,
        "phase": finding.phase,
        "kind": finding.kind,
        "op": finding.site.op,
        "dtype": finding.site.dtype,
        "cause": cause.cls if cause else None,
        "causeRule": cause.rule if cause else None,
        "certainty": cause.certainty if cause else None,
    }


def _fingerprint(finding: Finding) -> str:
    """Return what stays equal when the same origin fails in another run."""
    site = finding.site
    known = f"{finding.id}\n{site.scope}\n{site.op}\n{site.phase}"
    return hashlib.sha256(known.encode("utf-8", "surrogatepass")).hexdigest()


def _origin(finding: Finding, mark: str) -> dict[str, Any]:
    """Return the origin's place; viewers drop results that lie in no file."""
    row = _location(finding.site, mark)
    if (source := reading_line(finding)) is not None:
        row["physicalLocation"] = _physical(source)
    return row


def _location(site: Site, message: str) -> dict[str, Any]:
    row: dict[str, Any] = {"message": _m(message)}
    if site.source is not None:
        row["physicalLocation"] = _physical(site.source)
    name = printable(site.name)
    if name:
        kind = "function" if site.kind == "operator" else "variable"
        row["logicalLocations"] = [{"fullyQualifiedName": name, "kind": kind}]
    return row


def _physical(source: SourceLine) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": max(source.line, 1)}
    if source.text:
        region["snippet"] = _m(printable(source.text))
    return {"artifactLocation": _artifact(source.file), "region": region}


def _artifact(file: str) -> dict[str, str]:
    shown = source_path(file)
    if os.path.isabs(shown):  # noqa: PTH117 - a program's file may be `<string>`
        return {"uri": Path(shown).as_uri()}
    return {"uri": quote(PurePath(shown).as_posix()), "uriBaseId": _ROOT}


def _flow_step(site: Site, summary: Summary | None) -> dict[str, Any]:
    bits = headroom_bits(summary, site.dtype)
    value = held(summary) or f"{bits_text(bits)} bits"
    name = printable(chain_name(site))
    bad = summary is not None and summary.is_finite is False
    return {
        "location": _location(site, f"{name}: {value}"),
        "state": {"headroom": _m(value)},
        "importance": "essential" if bad else "important",
    }
