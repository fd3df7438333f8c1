# SPDX-License-Identifier: Apache-2.0
"""What the batch of a failing step adds to findings whose cause lies in the data.

It only sharpens a cause that was decided without it: which row, which column. A batch
that looks odd and did no harm is never mentioned.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numcheck.diagnose.finding import Evidence, Finding

__all__ = ["needs_batch", "with_batch"]

_TELLING: Final[Mapping[str, tuple[str, ...]]] = {
    "N051": ("data_N011",),
    "N052": ("data_N022", "data_largest_index"),
    "N053": ("data_N021", "data_largest_index"),
    "N054": ("data_N023", "data_N024", "data_N025", "data_N013"),
    "N055": ("data_N015", "data_N014"),
    "N056": ("data_N017", "data_N016"),
    "N353": ("data_N024",),
}
_MOST: Final = 3


def needs_batch(findings: Iterable[Finding]) -> bool:
    """Whether a look at the batch could sharpen one of the causes."""
    return any(f.cause is not None and f.cause.rule in _TELLING for f in findings)


def with_batch(
    findings: Sequence[Finding], batch: Sequence[Evidence]
) -> tuple[Finding, ...]:
    """Return findings with what the batch says about their causes.

    Args:
        findings: with their causes.
        batch: what the checks of data saw in the batch.

    Example:
        >>> with_batch((), ())
        ()
    """
    return tuple(_sharpened(finding, batch) for finding in findings)


def _sharpened(finding: Finding, batch: Sequence[Evidence]) -> Finding:
    telling = () if finding.cause is None else _TELLING.get(finding.cause.rule, ())
    said = [e for key in telling for e in batch if e.key == key][:_MOST]
    if not said:
        return finding
    return dataclasses.replace(finding, evidence=(*finding.evidence, *said))
