# SPDX-License-Identifier: Apache-2.0
"""Checks every batch of a training: each alone, and all that were seen together.

What one batch shows for itself (a NaN, a label past the classes, a mask row without an
entry) is looked for in each. What needs a larger sample (constant columns, outliers,
scale) is looked for in all batches so far, at the eighth of them and each time their
number has doubled, so that the price of a batch does not grow.
"""

from __future__ import annotations

import bisect
import dataclasses
from typing import TYPE_CHECKING, Any, Final

from numcheck.datacheck.settings import Settings
from numcheck.datacheck.stream import Stream
from numcheck.diagnose.finding import Advice, Cause, Finding
from numcheck.record.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from numcheck.datacheck.problem import Problem
    from numcheck.diagnose.finding import Severity

__all__ = ["BatchWatch"]

_OF_ONE_BATCH: Final = frozenset(
    ("N011", "N018", "N021", "N022", "N023", "N024", "N025")
)
"""What is as wrong in one batch as in a thousand."""
_ENOUGH: Final = 8


class BatchWatch:
    """The batches of a training so far.

    Example:
        >>> import numpy as np
        >>> watch = BatchWatch()
        >>> watch.look(0, {"y": np.array([0, 9])}, classes=10)
        ()
        >>> (finding,) = watch.look(1, {"y": np.array([3, 10])}, classes=10)
        >>> finding.id, finding.step, finding.fields["place"]
        ('N022', 1, 'y[1]')
    """

    def __init__(self, rank: int = 0) -> None:
        """Begin without a batch; `rank` is this process among those that train."""
        self._rank = rank
        self._all = Stream()
        self._starts: dict[str, list[int]] = {}
        self._steps: list[int] = []
        self._told: set[tuple[str, str]] = set()

    def look(
        self, step: int, batch: Mapping[str, NDArray[Any]], classes: int | None = None
    ) -> tuple[Finding, ...]:
        """Take the batch of a step; return what it shows that was not told before.

        Args:
            step: its number.
            batch: (rows, …) each, inputs and targets by name.
            classes: number of classes, where it is known.

        Returns:
            Findings, none of them an error: whether it does harm is not known here.
        """
        settings = Settings(classes=classes)
        alone = Stream(settings)
        self._steps.append(step)
        for name, array in batch.items():
            rows = self._all.subjects.get(name)
            starts = self._starts.setdefault(name, [0] * (len(self._steps) - 1))
            starts.append(0 if rows is None else rows.shape[0])
            alone.add(name, array)
            self._all.add(name, array)
        problems = [p for p in alone.problems() if p.id in _OF_ONE_BATCH]
        found = self._news(problems, step)
        count = len(self._steps)
        if count >= _ENOUGH and count & (count - 1) == 0:
            found += self._of_all()
        return tuple(found)

    def close(self) -> tuple[Finding, ...]:
        """Return what all batches together show that was not told before."""
        return tuple(self._of_all()) if len(self._steps) >= _ENOUGH else ()

    def _of_all(self) -> list[Finding]:
        problems = [p for p in self._all.problems() if p.id not in _OF_ONE_BATCH]
        return [
            finding
            for problem in problems
            for finding in self._news([self._placed(problem)], self._step_of(problem))
        ]

    def _step_of(self, problem: Problem) -> int:
        return self._steps[self._number(problem)] if self._steps else 0

    def _number(self, problem: Problem) -> int:
        """Return the number of the batch that a problem's row stands in; else the last.

        An array that changed its shape goes by another name, and tells no batch.
        """
        starts = self._starts.get(problem.array)
        if problem.row is None or not starts:
            return len(self._steps) - 1
        return min(bisect.bisect_right(starts, problem.row), len(self._steps)) - 1

    def _placed(self, problem: Problem) -> Problem:
        """Return a problem with its row counted within its batch."""
        starts = self._starts.get(problem.array)
        subject = self._all.subjects.get(problem.array)
        if problem.row is None or not starts or subject is None:
            return problem
        row = problem.row - starts[self._number(problem)]
        column = None if problem.column is None else int(problem.column)
        place = subject.layout.place(problem.array, row, column)
        fields = {**problem.fields, "place": place}
        return dataclasses.replace(problem, row=row, place=place, fields=fields)

    def _news(self, problems: Iterable[Problem], step: int) -> list[Finding]:
        found = []
        for problem in problems:
            key = problem.id, problem.array
            if key not in self._told:
                self._told.add(key)
                found.append(_finding(problem, step, self._rank))
        return found


def _finding(problem: Problem, step: int, rank: int) -> Finding:
    severity: Severity = "note" if problem.severity == "note" else "warning"
    return Finding(
        id=problem.id,
        severity=severity,
        site=Site(0, problem.array, "data", kind="source", role="input"),
        step=step,
        kind="data",
        rank=rank,
        fields=problem.fields,
        cause=Cause("data", problem.id, "certain", problem.fields),
        help=tuple(
            Advice(key, "possible" if place else "likely")
            for place, key in enumerate(problem.advice)
        ),
    )
