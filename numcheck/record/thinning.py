# SPDX-License-Identifier: Apache-2.0
"""Which steps of a long run are held: of neighbours, the one closest to overflow.

A run of 20,000 steps at 2,000 sites holds more summaries than a reader needs or memory
has room for. What goes wrong must not be what is left out, so steps are compared by how
many values are not finite, then by the least headroom of any site; those of a run
folder on the records as they lie on disk.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from numcheck import formats
from numcheck.errors import NumcheckError
from numcheck.record.columns import SummaryColumns
from numcheck.record.rows import ROW, mapped_rows, measured_mask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site

__all__ = [
    "Danger",
    "chosen_steps",
    "danger_by_step",
    "danger_of",
    "records_in",
    "together",
]

Danger = tuple[int, float]
"""How bad a step is, the smaller the worse: minus the number of values that are not
finite, then the least headroom of the others, in bits."""


def records_in(segments: Iterable[Path]) -> int:
    """Return how many records the segments hold."""
    return sum(path.stat().st_size // ROW.itemsize for path in segments)


def danger_by_step(
    segments: Iterable[Path], sites: Sequence[Site]
) -> dict[int, Danger]:
    """Return how bad each step of one rank is."""
    limits = np.array([*(_log2_max(site.dtype) for site in sites), math.inf])
    found: dict[int, Danger] = {}
    for path in segments:
        rows = mapped_rows(path)
        if not rows.size:
            continue
        starts = np.flatnonzero(np.diff(rows["step"], prepend=rows["step"][0] - 1))
        broken = _broken(rows)
        bits = np.where(broken, math.inf, _headroom(rows, limits))
        counts = np.add.reduceat(broken.astype(np.int64), starts).tolist()
        least = np.minimum.reduceat(bits, starts).tolist()
        steps = rows["step"][starts].tolist()
        for step, count, low in zip(steps, counts, least, strict=True):
            found[step] = together((-count, low), found.get(step))
    return found


def danger_of(sites: Sequence[Site], held: Mapping[int, Summary]) -> Danger:
    """Return how bad a step is by the summaries of its sites.

    Example:
        >>> from numcheck.measure.summary import Summary
        >>> from numcheck.record import Site
        >>> sites = [Site(0, "exp", "forward", dtype="float16")]
        >>> danger_of(sites, {0: Summary(n=1, low=0.0, high=2.0**15)})[0]
        0
        >>> danger_of(sites, {0: Summary(n=1, low=0.0, high=math.inf)})
        (-1, inf)
    """
    broken, least = 0, math.inf
    if isinstance(held, SummaryColumns):
        broken, least = _danger_of_columns(sites, held)
        held = held.others
    for site, summary in held.items():
        if summary.is_finite is False:
            broken += 1
        elif summary.low is not None and summary.high is not None:
            peak = max(abs(summary.low), abs(summary.high))
            if peak:
                least = min(least, _log2_max(sites[site].dtype) - math.log2(peak))
    return -broken, least


def _danger_of_columns(
    sites: Sequence[Site], held: SummaryColumns
) -> tuple[int, float]:
    """Return how many values are not finite, and the least headroom of the others."""
    found = [(row, site) for site, row in held.rows.items() if site not in held.others]
    ends = held.cells[[row for row, _ in found], :2]
    limits = np.array([_log2_max(sites[site].dtype) for _, site in found])
    is_finite = np.isfinite(ends).all(axis=1)
    peaks = np.abs(ends).max(axis=1)
    known = is_finite & (peaks > 0)
    bits = limits[known] - np.log2(peaks[known])
    return int((~is_finite).sum()), float(bits.min(initial=math.inf))


def together(a: Danger, b: Danger | None) -> Danger:
    """Return how bad a step is that is one part as bad as `a`, another as `b`."""
    return a if b is None else (a[0] + b[0], min(a[1], b[1]))


def _broken(rows: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Return which records hold something that is not finite."""
    counts = ("nan", "pos_inf", "neg_inf")
    counted: npt.NDArray[np.bool_] = np.any([rows[n] > 0 for n in counts], axis=0)
    counted |= ~np.isfinite(rows["low"])
    counted |= ~np.isfinite(rows["high"])
    return counted


def _headroom(
    rows: npt.NDArray[np.void], limits: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    known = rows["site"].clip(-1, len(limits) - 1)
    amax = np.where(rows["measured"] & measured_mask("amax"), rows["amax"], 0.0)
    with np.errstate(all="ignore"):
        bits: npt.NDArray[np.float64] = limits[known] - np.log2(amax)
    return np.nan_to_num(bits, nan=math.inf, posinf=math.inf, neginf=-math.inf)


@functools.cache
def _log2_max(dtype: str) -> float:
    try:
        return math.log2(formats.get(dtype).max)
    except NumcheckError:
        return math.inf


def chosen_steps(danger: Mapping[int, Danger], records: int, most: int) -> set[int]:
    """Return the steps to read so that about `most` of all records are.

    Args:
        danger: how bad each recorded step is, over all ranks.
        records: how many there are.
        most: how many may be read.

    Example:
        >>> danger = {0: (0, 9), 1: (0, 8), 2: (-1, 9), 3: (0, 7), 4: (0, 7), 5: (0, 6)}
        >>> sorted(chosen_steps(danger, 600, 300))
        [0, 1, 2, 5]
    """
    steps = sorted(danger)
    if records <= most or not steps:
        return set(steps)
    keep = max(1, most * len(steps) // records)
    # Equal stretches of the run, however many of their steps are known.
    wide = -(-(steps[-1] - steps[0] + 1) // keep)
    groups = itertools.groupby(steps, lambda step: (step - steps[0]) // wide)
    return {min(group, key=danger.__getitem__) for _, group in groups} | {
        steps[0],
        steps[-1],
    }
