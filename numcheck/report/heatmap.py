# SPDX-License-Identifier: Apache-2.0
"""The headroom map: one signed byte for each site and step, the worst of all ranks."""

from __future__ import annotations

import base64
import dataclasses
import math
from typing import TYPE_CHECKING, Final

from numcheck.report.colour import UNMEASURED_CODE, code_of, code_of_bits
from numcheck.report.figures import format_max

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numcheck.measure.summary import Summary
    from numcheck.record.trace import Trace

__all__ = ["Heatmap", "heatmap"]

_MOST_CELLS: Final = 1_200_000
_MOST_ROWS: Final = 4000


@dataclasses.dataclass(frozen=True, slots=True)
class Heatmap:
    """The map's data.

    Attributes:
        rows: index of the site of each row.
        steps: first step of each column.
        steps_in_column: how many recorded steps a column stands for; above 1 each
            cell is the worst of them.
        cells: codes, row after row, in base64.
        left_out: sites without a row because there are too many.
    """

    rows: Sequence[int]
    steps: Sequence[int]
    steps_in_column: int
    cells: str
    left_out: int


def heatmap(
    trace: Trace,
    progress: Callable[[int, int], None] | None = None,
    most_cells: int = _MOST_CELLS,
) -> Heatmap:
    """Return the map of a trace.

    Args:
        trace: what was recorded.
        progress: called with how many of all recorded steps are done.
        most_cells: steps are put together into columns so that the map has no more.
    """
    import numpy as np

    measured = sorted(set().union(*trace.summaries.values()))
    rows = _worth_a_row(trace, measured)
    steps = trace.steps
    columns = max(1, min(len(steps), most_cells // max(1, len(rows))))
    wide = -(-len(steps) // columns) if steps else 1
    column_of = {step: i // wide for i, step in enumerate(steps)}
    cells = np.full((len(rows), -(-len(steps) // wide)), UNMEASURED_CODE, np.int8)
    row_of = {site: row for row, site in enumerate(rows)}
    coders = [_Coder(site.dtype) for site in trace.sites]
    for done, ((step, _), summaries) in enumerate(trace.summaries.items(), 1):
        known = [
            (row_of[i], coders[i].code(s)) for i, s in summaries.items() if i in row_of
        ]
        at, codes = np.array(known, np.int32).reshape(-1, 2).T
        column = cells[:, column_of[step]]
        column[at] = np.minimum(column[at], codes.astype(np.int8))
        if progress is not None:
            progress(done, len(trace.summaries))
    return Heatmap(
        rows,
        steps[::wide],
        wide,
        base64.b64encode(cells.tobytes()).decode("ascii"),
        len(measured) - len(rows),
    )


class _Coder:
    """`code_of` for one dtype, quick for what is finite: millions of cells are."""

    __slots__ = ("_dtype", "_log2_max")

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        largest = format_max(dtype)
        self._log2_max = None if largest is None else math.log2(largest)

    def code(self, summary: Summary) -> int:
        """Return the cell for what a site of that dtype held."""
        if (
            self._log2_max is None
            or summary.amax is None
            or not summary.amax > 0
            or summary.nan != 0
            or summary.pos_inf != 0
            or summary.neg_inf != 0
        ):
            return code_of(summary, self._dtype)
        return code_of_bits(self._log2_max - math.log2(summary.amax))


def _worth_a_row(trace: Trace, measured: Sequence[int]) -> Sequence[int]:
    """Return the sites to show; of too many, kept values and then every so many."""
    if len(measured) <= _MOST_ROWS:
        return measured
    kept = [i for i in measured if trace.sites[i].kind == "kept"][: _MOST_ROWS // 2]
    others = sorted(set(measured) - set(kept))
    stride = -(-len(others) // (_MOST_ROWS - len(kept)))
    return sorted({*kept, *others[::stride]})
