# SPDX-License-Identifier: Apache-2.0
"""One array under examination: what it is for, and all that was counted in it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.datacheck.columns import measure
from numcheck.datacheck.layout import layout_of
from numcheck.datacheck.problem import Problem
from numcheck.datacheck.sample import centre_of
from numcheck.datacheck.settings import role_of
from numcheck.datacheck.tallies import count_groups, count_labels, count_rows
from numcheck.formats import get

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numcheck.datacheck.columns import Columns
    from numcheck.datacheck.layout import Layout
    from numcheck.datacheck.sample import Centre
    from numcheck.datacheck.settings import Role, Settings
    from numcheck.datacheck.tallies import Groups, Labels, MaskRows
    from numcheck.diagnose.finding import Field, Severity
    from numcheck.formats import Format

__all__ = ["Subject", "examine"]


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """An array, or the part of it that was seen so far.

    Attributes:
        name: of the array.
        role: what it is for.
        dtype: of its elements.
        shape: of all that was seen.
        layout: which elements are one column.
        columns: statistics of the columns.
        labels: of labels alone.
        mask_rows: of masks alone.
        groups: of group numbers alone.
    """

    name: str
    role: Role
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    layout: Layout
    columns: Columns
    labels: Labels | None = None
    mask_rows: MaskRows | None = None
    groups: Groups | None = None

    @property
    def is_floating(self) -> bool:
        """Whether its elements are floating point."""
        return self.dtype.kind == "f" or self.dtype.name.startswith(("bfloat", "float"))

    @property
    def format(self) -> Format:
        """The format of its floating-point elements; float64 for what is wider."""
        wider = self.dtype.kind == "f" and self.dtype.itemsize > 8
        return get("float64" if wider else self.dtype.name)

    @property
    def is_feature(self) -> bool:
        """Whether it is floating point that goes into the model."""
        return self.is_floating and self.role == "feature"

    def centre(self) -> Centre:
        """Return where most of each column lies, without what stands for missing."""
        values = self.columns.sample.values
        for sentinel, counts in self.columns.sentinels.items():
            # One of them is no more than a value; and -1 is an ordinary one.
            if sentinel != -1 and counts.any():
                same = np.isclose(values, sentinel, rtol=1e-3) & (counts > 0)
                values = np.where(same, np.nan, values)
        return centre_of(values)

    def problem(
        self,
        rule: str,
        severity: Severity,
        *advice: str,
        row: int | None = None,
        column: int | None = None,
        **fields: Field,
    ) -> Problem:
        """Return a problem of this array; row and column are where to look first."""
        place = self.layout.place(self.name, row, column)
        named = None if column is None else self.layout.column(column)
        shown = {"place": place, **fields}
        return Problem(rule, severity, self.name, place, shown, row, named, advice)

    def merge(self, other: Subject) -> Subject:
        """Return both parts of the array together."""
        rows = self.shape[0] + other.shape[0]
        return dataclasses.replace(
            self,
            shape=(rows, *self.shape[1:]),
            columns=self.columns.merge(other.columns),
            labels=_together(self.labels, other.labels),
            mask_rows=_together(self.mask_rows, other.mask_rows),
            groups=_together(self.groups, other.groups),
        )


def _together(a: Any, b: Any) -> Any:  # noqa: ANN401 - two tallies of one kind
    return a if b is None else b if a is None else a.merge(b)


def examine(
    name: str,
    array: NDArray[Any],
    settings: Settings,
    *,
    start: int = 0,
    names: tuple[str, ...] = (),
) -> Subject:
    """Return what is to be known of an array of numbers with at least one element.

    Args:
        name: of the array.
        array: (rows, …); a single number counts as one row.
        settings: what is known beside it.
        start: number of its first row.
        names: of its columns.
    """
    array = np.atleast_1d(array)
    role = role_of(name, array.dtype, settings)
    layout = layout_of(array.shape, names)
    columns = measure(array, layout, start)
    whole = array.dtype.kind in "iu" or bool(columns.is_whole.all())
    is_label = role == "label" and whole
    is_group = role == "group" and array.dtype.kind in "iu"
    return Subject(
        name,
        role,
        array.dtype,
        array.shape,
        layout,
        columns,
        labels=count_labels(array, settings, start) if is_label else None,
        mask_rows=count_rows(array, name, start) if role == "mask" else None,
        groups=count_groups(array) if is_group else None,
    )
