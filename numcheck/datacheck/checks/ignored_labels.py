# SPDX-License-Identifier: Apache-2.0
"""Labels that the loss leaves out, all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.datacheck.subject import Subject

__all__ = ["ignored_labels"]


def ignored_labels(subject: Subject, settings: Settings) -> Iterator[Problem]:
    """Answer when no label is left: the loss is then a mean over nothing, NaN."""
    found = subject.labels
    if found is None or not found.n or found.ignored < found.n:
        return
    yield subject.problem(
        "N023",
        "error",
        "data_skip_unlabelled",
        n=found.n,
        ignored=settings.ignore_index,
    )
