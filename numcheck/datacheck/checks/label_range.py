# SPDX-License-Identifier: Apache-2.0
"""Labels that point past the classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["label_range"]


def label_range(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer for labels below zero or past the last class."""
    found = subject.labels
    if found is None or not found.outside:
        return
    classes = settings.classes
    from_one = classes is not None and found.low >= 1 and found.high[0] == classes
    row, label = found.first
    yield subject.problem(
        "N022",
        "error",
        "data_labels_from_one" if from_one else "data_labels",
        row=row,
        label=int(label),
        count=found.outside,
        n=found.n,
        last="…" if classes is None else classes - 1,
    )
