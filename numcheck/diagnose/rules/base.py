# SPDX-License-Identifier: Apache-2.0
"""What a rule about an origin is, and what it answers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from numcheck.diagnose.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.diagnose.finding import Field
    from numcheck.diagnose.scene import Scene

__all__ = ["Match", "Rule", "measured"]


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """A rule's claim: this is what broke.

    Attributes:
        id: id of the finding, its title in the messages.
        fields: named values for the title.
        evidence: what was seen that makes it so.
    """

    id: str
    fields: Mapping[str, Field] = dataclasses.field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()


def measured(key: str, **fields: Field | None) -> tuple[Evidence, ...]:
    """Return one piece of evidence, or none where a field was not measured."""
    known = {name: value for name, value in fields.items() if value is not None}
    return (Evidence(key, known),) if len(known) == len(fields) else ()


class Rule(Protocol):
    """One way in which an operator breaks. Rules are asked in a fixed order."""

    id: str

    def match(self, scene: Scene) -> Match | None:
        """Return what broke, or None when this is not it."""
        ...
