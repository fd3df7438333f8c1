# SPDX-License-Identifier: Apache-2.0
"""One thing that is wrong with data, as message fields."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numcheck.diagnose.finding import Field, Severity

__all__ = ["Problem"]


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """What a check found in one array.

    Attributes:
        id: rule id, such as ``N014``.
        severity: error (no healthy training is possible with it), warning, note.
        array: name of the array.
        place: where, in index notation: ``x[17, 4]``; the array's name alone where
            all of it is meant.
        fields: named values of the message.
        row: index along the first axis; None where no single row is meant.
        column: name or number of the column, likewise.
        advice: keys of what to change, best first.
    """

    id: str
    severity: Severity
    array: str
    place: str
    fields: Mapping[str, Field]
    row: int | None = None
    column: str | None = None
    advice: tuple[str, ...] = ()
