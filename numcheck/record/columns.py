# SPDX-License-Identifier: Apache-2.0
"""Summaries of one step as columns: what is recorded at every step by the hundred.

Objects by the hundred thousand keep the garbage collector busy and take ten times the
room. A summary is made when somebody asks for it.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Final

from numcheck.measure.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

__all__ = ["UNKNOWN", "UNSUMMED", "SummaryColumns", "of_extremes"]

UNSUMMED: Final = math.nan
"""Stands where the sums of a value were not measured."""
UNKNOWN: Final = math.inf
"""Stands where they were, and left the range of their format."""


class SummaryColumns(MutableMapping[int, Summary]):
    """Summaries by site, most of them nothing but extremes.

    Args:
        rows: for each site its row; sites of the same elements share one.
        sizes: number of elements of each row.
        cells: smallest, largest, sum and sum of squares of each row, see `UNSUMMED`
            and `UNKNOWN`; of shape (rows, 4).
        others: summaries of other sites, which are more than that, or less.

    Example:
        >>> import numpy as np
        >>> cells = np.array([[-1.0, 3.0, UNSUMMED, UNSUMMED]])
        >>> held = SummaryColumns({4: 0, 7: 0}, [9], cells)
        >>> held[7].amax, sorted(held)
        (3.0, [4, 7])
    """

    def __init__(
        self,
        rows: Mapping[int, int],
        sizes: Sequence[int],
        cells: npt.NDArray[np.float64],
        others: Mapping[int, Summary] | None = None,
    ) -> None:
        """Start with what was measured; all but `others` may be shared."""
        self.rows = rows
        self.sizes = sizes
        self.cells = cells
        self.others = dict(others or {})

    def __getitem__(self, site: int) -> Summary:
        """Return the summary of a site."""
        other = self.others.get(site)
        if other is not None:
            return other
        row = self.rows[site]
        return of_extremes(self.sizes[row], *self.cells[row].tolist())

    def __setitem__(self, site: int, summary: Summary) -> None:
        """Put another summary in a site's place."""
        self.others[site] = summary

    def __delitem__(self, site: int) -> None:
        """Refuse: what was recorded stays."""
        raise TypeError(site)

    def __iter__(self) -> Iterator[int]:
        """Yield the sites, ascending."""
        return iter(sorted(self.rows.keys() | self.others.keys()))

    def __len__(self) -> int:
        """Return how many sites there are."""
        return len(self.rows) + len(self.others.keys() - self.rows.keys())

    def __repr__(self) -> str:
        """Return them as a dictionary's."""
        return repr(dict(self))

    def __contains__(self, site: object) -> bool:
        """Whether a site was measured."""
        return site in self.rows or site in self.others

    def copy(self) -> SummaryColumns:
        """Return the same summaries, of which others may be replaced."""
        return SummaryColumns(self.rows, self.sizes, self.cells, self.others)

    def placed(self, rows: Mapping[int, int], places: Sequence[int]) -> SummaryColumns:
        """Return the same summaries under other numbers of their sites.

        Args:
            rows: the rows of the sites as they are numbered there.
            places: for each site its number there.
        """
        others = {places[site]: summary for site, summary in self.others.items()}
        return SummaryColumns(rows, self.sizes, self.cells, others)


def of_extremes(
    n: int,
    low: float,
    high: float,
    total: float = UNSUMMED,
    total_sq: float = UNSUMMED,
) -> Summary:
    """Return a summary of the smallest and the largest of all elements.

    Of elements that are not all finite nothing but their extremes is known.

    Args:
        n: number of elements.
        low: the smallest, NaN where there is one.
        high: the largest.
        total: their sum, `UNSUMMED` or `UNKNOWN`.
        total_sq: the sum of their squares, likewise.

    Example:
        >>> of_extremes(2, -3.0, 1.0).amax
        3.0
        >>> of_extremes(2, 1.0, 3.0, 4.0, 10.0).std
        1.0
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return Summary(n, low=low, high=high)
    amax = max(high, -low)
    if math.isnan(total):
        return Summary(n, low=low, high=high, amax=amax)
    if amax == 0:
        total = total_sq = 0.0
    return Summary(
        n,
        nan=0,
        pos_inf=0,
        neg_inf=0,
        low=low,
        high=high,
        amax=amax,
        total=None if total == UNKNOWN else total,
        total_sq=None if total_sq == UNKNOWN else total_sq,
    )
