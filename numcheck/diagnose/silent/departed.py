# SPDX-License-Identifier: Apache-2.0
"""A value that was lost without a NaN or Inf, as data."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Evidence, FaultKind
    from numcheck.record.site import Site

__all__ = ["Departed"]


@dataclasses.dataclass(frozen=True, slots=True)
class Departed:
    """An operator at which a value was lost without a NaN or Inf in the results.

    Attributes:
        site: the operator.
        kind: ``underflow``, ``stagnation``, ``saturation``, or the infinity it hides.
        evidence: the measured numbers.
        harm: kept values that depart because of it, most important first.
        on_the_way: sites that depart, by index.
    """

    site: Site
    kind: FaultKind
    evidence: tuple[Evidence, ...]
    harm: tuple[Site, ...]
    on_the_way: frozenset[int]
