# SPDX-License-Identifier: Apache-2.0
"""One diagnosis: what broke, where, why, and what to change, as data.

A finding holds message keys and named fields, never formatted text; the report
turns them into a language.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Phase, Site

__all__ = [
    "Advice",
    "Cause",
    "CauseClass",
    "Certainty",
    "Evidence",
    "Fact",
    "FaultKind",
    "Finding",
    "Severity",
]

Severity = Literal["error", "warning", "note"]
CauseClass = Literal["data", "dynamics", "op-domain", "precision", "hardware"]
Certainty = Literal["certain", "likely", "possible"]
FaultKind = Literal[
    "nan",
    "+inf",
    "-inf",
    "inf",
    "underflow",
    "stagnation",
    "saturation",
    "departure",
    "drift",
    "data",
]
Field = str | int | float


@dataclasses.dataclass(frozen=True, slots=True)
class Fact:
    """One row of the facts table: a tensor at the origin.

    Attributes:
        label: message key of the row's label: ``input``, ``output``, ``source``.
        name: the tensor's name for people, e.g. the site that made it.
        dtype: name of its format.
        summary: what was measured.
    """

    label: Literal["input", "output"]
    name: str
    dtype: str
    summary: Summary


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that was seen or inferred, by message key and named fields.

    Attributes:
        key: key into the messages' ``evidence`` table.
        fields: named values for the message.
        seen: True when measured, False when inferred.
    """

    key: str
    fields: Mapping[str, Field] = dataclasses.field(default_factory=dict)
    seen: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """One change to make, by message key into the ``advice`` table.

    Attributes:
        tried: True when an experiment applied it and the step came out healthy.
    """

    key: str
    certainty: Certainty
    fields: Mapping[str, Field] = dataclasses.field(default_factory=dict)
    tried: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """Why it broke.

    Attributes:
        cls: class of the root cause.
        rule: id of the rule that decided (its page: `numcheck explain`).
        certainty: how sure.
        fields: named values for the rule's message.
    """

    cls: CauseClass
    rule: str
    certainty: Certainty
    fields: Mapping[str, Field] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One origin and everything known about it.

    Attributes:
        id: rule id of what broke at the origin, e.g. ``N101``.
        severity: error (harm was done), warning (bits are lost or it will fail soon),
            note.
        site: the origin.
        step: 0-based step of the first failure.
        rank: process that failed first.
        kind: what the origin's output holds.
        phase: phase of the origin.
        fields: named values for the rule's title.
        facts: tensors at the origin, inputs first.
        chain: from upstream of the origin to the harm: (site, summary or None).
        harm: kept values it reached, most important first.
        evidence: what was seen and inferred.
        cause: why; None when the evidence does not decide.
        help: what to change, best first.
        reproduced: whether the replay gave the failure again; None when not asked.
        masked: births that died inside and did no harm.
        count: how often this origin failed since.
    """

    id: str
    severity: Severity
    site: Site
    step: int
    kind: FaultKind
    rank: int = 0
    fields: Mapping[str, Field] = dataclasses.field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    chain: tuple[tuple[Site, Summary | None], ...] = ()
    harm: tuple[Site, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    cause: Cause | None = None
    help: tuple[Advice, ...] = ()
    reproduced: bool | None = None
    masked: tuple[Site, ...] = ()
    count: int = 1

    @property
    def phase(self) -> Phase:
        """Phase of the origin."""
        return self.site.phase

    def _repr_html_(self) -> str:
        """Return how a notebook shows it; the report is found only when asked."""
        notebook = importlib.import_module("numcheck.report.notebook")
        shown: str = notebook.finding_html(self)
        return shown
