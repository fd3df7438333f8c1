# SPDX-License-Identifier: Apache-2.0
"""The report as one JSON document, described by ``report.schema.json``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numcheck
from numcheck.errors import ArgumentError
from numcheck.report.interchange import (
    finding_from_json,
    finding_to_json,
    number_to_json,
)
from numcheck.report.messages import language
from numcheck.report.prose import Prose, experiment_text
from numcheck.report.triage import answers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.diagnose.finding import Finding
    from numcheck.diagnose.incident import Experiment
    from numcheck.report.content import Content

__all__ = ["SCHEMA_VERSION", "findings_from_json", "json_report"]

SCHEMA_VERSION: Final = 1


def json_report(content: Content, lang: str | None = None) -> str:
    """Return the whole report as strict JSON.

    Args:
        content: findings and what is known around them.
        lang: language of the texts that stand beside the data.
    """
    lang = language(lang)
    coverage, trace = content.coverage, content.trace
    document = {
        "tool": "numcheck",
        "version": numcheck.__version__,
        "schema_version": SCHEMA_VERSION,
        "language": lang,
        "findings": [_with_texts(f, lang) for f in content.findings],
        "experiments": [_experiment(e, lang) for e in content.experiments],
        "triage": [
            {
                "question": a.question,
                "verdict": a.verdict,
                "fields": {n: number_to_json(v) for n, v in a.fields.items()},
            }
            for a in answers(content)
        ],
        "events": [
            {
                "name": e.name,
                "step": e.step,
                "rank": e.rank,
                "value": number_to_json(e.value),
            }
            for e in content.events
        ],
        "settings": {n: number_to_json(v) for n, v in content.settings.items()},
        "recorded": {
            "sites": len(trace.sites) if trace else 0,
            "steps": list(trace.steps) if trace else [],
            "ranks": list(trace.ranks) if trace else [],
        },
        "watched": list(coverage.seen(lang)),
        "not_watched": list(coverage.unseen(lang)),
    }
    return json.dumps(document, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def _with_texts(finding: Finding, lang: str) -> dict[str, Any]:
    prose = Prose(finding, lang)
    texts = {
        "title": prose.title(),
        "mark": prose.mark(),
        "cause": prose.cause(),
        "evidence": [sentence for _, sentence in prose.evidence()],
        "help": list(prose.help()),
    }
    return finding_to_json(finding) | {"text": texts}


def _experiment(experiment: Experiment, lang: str) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "result": experiment.result,
        "reason": experiment.reason,
        "text": experiment_text(experiment, lang),
        "fields": {n: number_to_json(v) for n, v in experiment.fields.items()},
    }


def findings_from_json(document: str) -> Sequence[Finding]:
    """Return the findings of a document that `json_report` wrote.

    Raises:
        ArgumentError: it is no such document, or one of a later schema.

    Example:
        >>> findings_from_json('{"tool": "numcheck", "schema_version": 1}')
        ()
    """
    try:
        read = json.loads(document)
    except (ValueError, RecursionError) as error:
        msg = f"not JSON: {error}"
        raise ArgumentError(msg) from error
    if not isinstance(read, dict) or read.get("tool") != "numcheck":
        msg = "not a report of numcheck: its key 'tool' is not 'numcheck'"
        raise ArgumentError(msg)
    version = read.get("schema_version")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        msg = (
            f"the report has schema version {version!r}; this numcheck reads up to "
            f"{SCHEMA_VERSION}"
        )
        raise ArgumentError(msg)
    return tuple(finding_from_json(row) for row in read.get("findings", ()))
