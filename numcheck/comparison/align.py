# SPDX-License-Identifier: Apache-2.0
"""Which point of one run is which point of the other."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from typing import TYPE_CHECKING, Literal

from numcheck.comparison.names import canonical, split_candidates
from numcheck.measure.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numcheck.comparison.points import Point, PointKind

__all__ = ["Alignment", "Pair", "align", "unknown_name"]

How = Literal["name", "map", "fused", "order"]
_Key = tuple["PointKind", tuple[str, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """Two points that hold the same value, or one that holds several of the other.

    Attributes:
        a, b: representative points.
        summary_a, summary_b: what they held; merged where several points stand for
            one (a fused projection against its parts).
        how: by which rule they were found to be the same.
    """

    a: Point
    b: Point
    summary_a: Summary
    summary_b: Summary
    how: How


@dataclasses.dataclass(frozen=True, slots=True)
class Alignment:
    """The pairs, in the first run's order, and what found no partner."""

    pairs: tuple[Pair, ...]
    only_a: tuple[Point, ...]
    only_b: tuple[Point, ...]


def align(
    a: Sequence[Point], b: Sequence[Point], names: Mapping[str, str] | None = None
) -> Alignment:
    """Pair the points of two runs.

    By the user's map first, then by name, then fused against split projections, then
    by order among points of the same kind and number of elements.

    Args:
        a: points of the first run.
        b: points of the second run.
        names: paths of modules or parameters in the first run → in the second.
    """
    renamed = {canonical(x): canonical(y) for x, y in (names or {}).items()}
    left, right = _best_spelling(a, b)
    pairs: list[Pair] = []
    for key, point in list(left.items()):
        target = (key[0], _mapped(key[1], renamed))
        if target in right:
            how: How = "name" if target == key else "map"
            pairs.append(_pair(point, right.pop(target), how))
            del left[key]
    pairs += _fused(left, right, swap=False)
    pairs += _fused(right, left, swap=True)
    pairs += _by_order(left, right)
    pairs.sort(key=lambda p: p.a.order)
    return Alignment(tuple(pairs), tuple(left.values()), tuple(right.values()))


def _best_spelling(
    a: Sequence[Point], b: Sequence[Point]
) -> tuple[dict[_Key, Point], dict[_Key, Point]]:
    """Return the points by name, without a root that only one side spells out.

    Flax puts the class of the outermost module first, PyTorch does not.
    """
    spellings = [(left, right) for left in _spellings(a) for right in _spellings(b)]
    return max(spellings, key=lambda both: len(both[0].keys() & both[1].keys()))


def _spellings(points: Sequence[Point]) -> list[dict[_Key, Point]]:
    plain = {(p.kind, p.path): p for p in points}
    roots = {p.path[0] for p in points if p.kind == "module"}
    if len(roots) != 1:
        return [plain]
    bare = {
        (p.kind, p.path[1:] or p.path if p.kind == "module" else p.path): p
        for p in points
    }
    return [plain, bare]


def _mapped(
    path: tuple[str, ...], renamed: Mapping[tuple[str, ...], tuple[str, ...]]
) -> tuple[str, ...]:
    """Replace the longest mapped stretch of a path."""
    for size in range(len(path), 0, -1):
        for start in range(len(path) - size + 1):
            stretch = path[start : start + size]
            if stretch in renamed:
                return path[:start] + renamed[stretch] + path[start + size :]
    return path


def unknown_name(name: str, points: Sequence[Point]) -> str | None:
    """Return what is closest to a name that no point has; None of one that some has.

    Args:
        name: of a module or parameter, as the user spells it.
        points: of one run.
    """
    wanted = canonical(name)
    stretches = {
        p.path[i:j]
        for p in points
        for i in range(len(p.path))
        for j in range(i + 1, len(p.path) + 1)
    }
    if wanted in stretches:
        return None
    known = [".".join(s) for s in sorted(stretches)]
    near = difflib.get_close_matches(".".join(wanted), known, n=1, cutoff=0.0)
    return near[0] if near else ""


def _pair(a: Point, b: Point, how: How) -> Pair:
    return Pair(a, b, a.summary, b.summary, how)


def _fused(
    whole: dict[_Key, Point], parts: dict[_Key, Point], *, swap: bool
) -> list[Pair]:
    found = []
    for key, point in list(whole.items()):
        for names in split_candidates(key[1]):
            keys = [(key[0], name) for name in names]
            if not all(k in parts for k in keys):
                continue
            members = [parts.pop(k) for k in keys]
            merged = functools.reduce(Summary.merge, (m.summary for m in members))
            del whole[key]
            first, held = (members[0], merged), (point, point.summary)
            (a, sa), (b, sb) = (first, held) if swap else (held, first)
            found.append(Pair(a, b, sa, sb, "fused"))
            break
    return found


def _by_order(left: dict[_Key, Point], right: dict[_Key, Point]) -> list[Pair]:
    """Pair what has no name in common, in order, where the numbers of elements agree.

    Operators are left alone: a wrong guess there would look like a difference.
    """
    found = []
    waiting = sorted(right.items(), key=lambda item: item[1].order)
    for key, point in sorted(left.items(), key=lambda item: item[1].order):
        if point.kind == "operator":
            continue
        for i, (other_key, other) in enumerate(waiting):
            if other.kind == point.kind and other.summary.n == point.summary.n:
                found.append(_pair(point, other, "order"))
                del left[key], right[other_key], waiting[: i + 1]
                break
    return found
