# SPDX-License-Identifier: Apache-2.0
"""Scalars over the steps, thinned out so that no extreme and no NaN is lost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from numcheck.report.interchange import number_to_json
from numcheck.report.messages import LANGUAGES
from numcheck.report.naming import scalar_kind, scalar_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numcheck.record.trace import Event

__all__ = ["curves"]

_MOST_POINTS: Final = 2000
_SAMPLED: Final = ("headroom", "embedding_norm", "update_ratio")
"""What audits alone tell: a single one of them makes no curve."""
Point = tuple[int, float]


def curves(events: Iterable[Event], most: int = _MOST_POINTS) -> list[dict[str, Any]]:
    """Return each scalar as a curve, of the lowest rank that reported it.

    Args:
        events: scalars and notes; texts are passed over.
        most: points a curve may have; beyond, each group of neighbours is replaced by
            its lowest, its highest and its first value that is not finite.

    Example:
        >>> from numcheck.record.trace import Event
        >>> curves([Event("loss", 0, 2.5), Event("loss", 1, float("nan"))])[0]["values"]
        [2.5, 'NaN']
    """
    series: dict[str, dict[int, list[Point]]] = {}
    for event in events:
        if isinstance(event.value, int | float):
            ranks = series.setdefault(event.name, {})
            ranks.setdefault(event.rank, []).append((event.step, float(event.value)))
    drawn = []
    for name, ranks in series.items():
        points = sorted(ranks[min(ranks)], key=lambda point: point[0])
        if len(points) == 1 and scalar_kind(name) in _SAMPLED:
            continue
        thinned = _thinned(points, most)
        drawn.append(
            {
                "name": {lang: scalar_name(name, lang) for lang in LANGUAGES},
                "steps": [step for step, _ in thinned],
                "values": [number_to_json(value) for _, value in thinned],
                "thinned": len(thinned) < len(points),
            }
        )
    return drawn


def _thinned(points: Sequence[Point], most: int) -> Sequence[Point]:
    if len(points) <= most:
        return points
    group = -(-3 * len(points) // most)
    kept: list[Point] = []
    for start in range(0, len(points), group):
        near = points[start : start + group]
        finite = [p for p in near if math.isfinite(p[1])]
        chosen = [p for p in near if not math.isfinite(p[1])][:1]
        if finite:
            chosen += [
                min(finite, key=lambda point: point[1]),
                max(finite, key=lambda point: point[1]),
            ]
        kept += sorted(set(chosen), key=lambda point: point[0])
    return kept
