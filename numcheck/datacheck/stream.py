# SPDX-License-Identifier: Apache-2.0
"""Checks arrays that come in pieces: batches, shards, parts of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.datacheck.checks import CHECKS
from numcheck.datacheck.checks.dtype_mismatch import mixed_dtypes
from numcheck.datacheck.layout import cut, is_numeric, layout_of
from numcheck.datacheck.settings import Settings
from numcheck.datacheck.subject import examine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.subject import Subject

__all__ = ["Stream", "check_arrays"]

_SEVERITIES = ("error", "warning", "note")


class Stream:
    """All that was seen of some named arrays, piece after piece.

    What is kept does not grow with the number of pieces.

    Args:
        settings: what is known beside the data.

    Example:
        >>> stream = Stream(Settings(classes=10))
        >>> for labels in ([3, 9], [10, 1]):
        ...     stream.add("labels", np.array(labels))
        >>> [(p.id, p.place) for p in stream.problems()]
        [('N022', 'labels[2]')]
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.subjects: dict[str, Subject] = {}

    def add(self, name: str, array: NDArray[Any], names: tuple[str, ...] = ()) -> None:
        """Take the next piece of an array; what holds no number is passed over.

        A piece of another dtype or other columns than the ones before is an array of
        its own, as batches of different length along their last axis are.
        """
        array = np.atleast_1d(np.asarray(array))
        if not array.size or not is_numeric(array.dtype):
            return
        known = self._of_kind(name, array)
        for part in cut(array):
            before = self.subjects.get(known)
            start = 0 if before is None else before.shape[0]
            found = examine(known, part, self.settings, start=start, names=names)
            self.subjects[known] = found if before is None else before.merge(found)

    def _of_kind(self, name: str, array: NDArray[Any]) -> str:
        """Return the name under which pieces like this one are kept."""
        before = self.subjects.get(name)
        layout = layout_of(array.shape)
        if before is None or (
            (before.layout.axis, before.layout.columns) == (layout.axis, layout.columns)
            and before.dtype == array.dtype
        ):
            return name
        shape = "×".join(map(str, array.shape[1:]))
        return f"{name} ({array.dtype.name} {shape})"

    def problems(self) -> tuple[Problem, ...]:
        """Return what is wrong with all that was seen, the worst first."""
        subjects = self.subjects.values()
        found = [
            problem
            for subject in subjects
            for check in CHECKS
            for problem in check(subject, self.settings)
        ]
        if self.settings.dtype is None:
            found += mixed_dtypes(tuple(subjects))
        return tuple(sorted(found, key=lambda p: _SEVERITIES.index(p.severity)))


def check_arrays(
    arrays: Mapping[str, NDArray[Any]], settings: Settings | None = None
) -> tuple[Problem, ...]:
    """Return what is wrong with named arrays, the worst first.

    Args:
        arrays: (rows, …) each; a batch, or a whole data set.
        settings: what is known beside them.

    Example:
        >>> x = np.zeros((8, 2), np.float32)
        >>> x[:, 0] = np.linspace(-1, 1, 8)
        >>> [(p.id, p.place) for p in check_arrays({"x": x})]
        [('N013', 'x[:, 1]')]
    """
    stream = Stream(settings)
    for name, array in arrays.items():
        stream.add(name, array)
    return stream.problems()
