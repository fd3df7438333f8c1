# SPDX-License-Identifier: Apache-2.0
"""What the checks see in the batch of a failing step, as evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numcheck.datacheck.stream import Stream
from numcheck.diagnose.finding import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from numcheck.datacheck.problem import Problem
    from numcheck.datacheck.settings import Settings
    from numcheck.diagnose.finding import Field

__all__ = ["batch_evidence"]

_TOLD: Final = frozenset(
    f"N{number:03d}" for number in (11, 13, 14, 15, 16, 17, 21, 22, 23, 24, 25)
)
_MOST_BYTES: Final = 1 << 28
"""Of one array; a larger one would keep a stopped training waiting."""


def batch_evidence(
    arrays: Mapping[str, NDArray[Any]], settings: Settings | None = None
) -> tuple[Evidence, ...]:
    """Return what is odd about a batch, and the largest of its integers.

    Args:
        arrays: (rows, …) each, by name.
        settings: what is known beside them.

    Example:
        >>> x = np.ones((4, 2)) * [[1], [2], [3], [1e30]]
        >>> [(e.key, e.fields["place"]) for e in batch_evidence({"x": x})]
        [('data_N015', 'x[3, 0]')]
    """
    stream = Stream(settings)
    for name, array in arrays.items():
        if array.nbytes <= _MOST_BYTES:
            stream.add(name, array)
    found = [
        Evidence(f"data_{problem.id}", _fields(problem, arrays))
        for problem in stream.problems()
        if problem.id in _TOLD
    ]
    return (*found, *_largest_index(stream))


def _fields(
    problem: Problem, arrays: Mapping[str, NDArray[Any]]
) -> Mapping[str, Field]:
    """Return the fields of a problem, the whole index of the first NaN or Inf."""
    array = arrays.get(problem.array)
    if problem.id != "N011" or array is None or problem.row is None or array.ndim < 3:
        return problem.fields
    at = np.argwhere(~np.isfinite(np.asarray(array[problem.row], np.float64)))
    if not len(at):
        return problem.fields
    index = ", ".join(map(str, (problem.row, *at[0].tolist())))
    return {**problem.fields, "place": f"{problem.array}[{index}]"}


def _largest_index(stream: Stream) -> Iterator[Evidence]:
    """Yield where the batch's largest integer stands."""
    integers = [s for s in stream.subjects.values() if s.dtype.kind in "iu"]
    if not integers:
        return
    subject = max(integers, key=lambda s: float(s.columns.high.max()))
    column = int(np.argmax(subject.columns.high))
    row = int(subject.columns.high_row[column])
    yield Evidence(
        "data_largest_index",
        {
            "place": subject.layout.place(subject.name, row, column),
            "value": int(subject.columns.high[column]),
        },
    )
