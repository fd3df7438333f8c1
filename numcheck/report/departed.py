# SPDX-License-Identifier: Apache-2.0
"""Float32 against the program's own formats: which values depart, and by how much."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

from numcheck.errors import UnknownFormatError
from numcheck.formats import get
from numcheck.report.figures import compact
from numcheck.report.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.record.trace import Trace

__all__ = ["Departure", "departed"]

_MOST_ROWS: Final = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Departure:
    """How far one value lies from its float32 shadow.

    Attributes:
        index: the site.
        name: its name for people.
        phase: part of the step.
        dtype: its format.
        error: relative L2 error as text.
        roundings: the error in largest relative errors of one rounding to the format.
    """

    index: int
    name: str
    phase: str
    dtype: str
    error: str
    roundings: str


def departed(trace: Trace, departures: Mapping[int, float]) -> list[Departure]:
    """Return the values farthest from the shadow, in the order of execution.

    Measured in roundings of their own format, so that a bfloat16 value may lie farther
    off than a float16 value before it counts as far.
    """
    ranked = sorted(
        (i for i in departures if i < len(trace.sites)),
        key=lambda i: -_roundings(trace, i, departures[i]),
    )
    return [
        _row(trace, index, departures[index]) for index in sorted(ranked[:_MOST_ROWS])
    ]


def _roundings(trace: Trace, index: int, error: float) -> float:
    try:
        one = get(trace.sites[index].dtype).unit_roundoff
    except UnknownFormatError:
        return 0.0
    return math.inf if math.isnan(error) else error / one


def _row(trace: Trace, index: int, error: float) -> Departure:
    site = trace.sites[index]
    return Departure(
        index,
        printable(site.name),
        site.phase,
        printable(site.dtype),
        compact(error),
        compact(_roundings(trace, index, error)),
    )
