# SPDX-License-Identifier: Apache-2.0
"""What a rule about a cause is, and what it answers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from numcheck.diagnose.finding import Advice, Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.diagnose.finding import CauseClass, Certainty, Evidence, Field
    from numcheck.diagnose.rules.base import Match
    from numcheck.diagnose.scene import Scene

__all__ = ["EDGES", "OVERFLOWS", "CauseRule", "Explanation", "explain", "tried"]

OVERFLOWS = frozenset({"N101", "N102", "N103", "N104", "N105", "N106", "N107"})
"""Findings in which a result was too large for its format."""

EDGES = frozenset({"N301", "N302", "N303", "N304", "N309", "N310", "N311", "N312"})
"""Findings in which an operand lay where its function has no finite value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """A rule's claim: this is why it broke.

    Attributes:
        cause: class, rule and certainty.
        evidence: what speaks for it.
        help: what to change, best first.
    """

    cause: Cause
    evidence: tuple[Evidence, ...] = ()
    help: tuple[Advice, ...] = ()


class CauseRule(Protocol):
    """One reason why programs break. Rules are asked in a fixed order."""

    id: str

    def explain(self, scene: Scene, broke: Match) -> Explanation | None:
        """Return why it broke, or None when this is not why."""
        ...


def explain(
    rule: str,
    cls: CauseClass,
    certainty: Certainty,
    *evidence: Evidence,
    advice: tuple[str | Advice, ...] = (),
    fields: Mapping[str, Field] | None = None,
) -> Explanation:
    """Return an explanation whose advice is given by keys, best first.

    A change that an experiment tried is given whole and leads. The first of the others
    is as certain as the cause, but at most likely; the rest are possible.
    """
    first: Certainty = "likely" if certainty == "certain" else certainty
    done = [step for step in advice if isinstance(step, Advice)]
    keys = [step for step in advice if isinstance(step, str)]
    untried = [Advice(k, "possible" if i else first) for i, k in enumerate(keys)]
    cause = Cause(cls, rule, certainty, fields or {})
    return Explanation(cause, evidence, (*done, *untried))


def tried(key: str, **fields: Field) -> Advice:
    """Return a change that an experiment made, with which the step was healthy."""
    return Advice(key, "certain", fields, tried=True)
