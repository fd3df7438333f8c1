# SPDX-License-Identifier: Apache-2.0
"""Statistics of several nodes, as arrays that travel through a compiled program."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from numcheck_jax.columns import measure_of
from numcheck_jax.decoding import decode
from numcheck_jax.statistics import empty_rows, is_bad, merge_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numcheck_jax.columns import Measure
    from numcheck_jax.interpreter.graph import Graph

__all__ = [
    "NEVER",
    "Rows",
    "at_iteration",
    "concatenated",
    "decode_into",
    "departure_of",
    "empty",
    "empty_like",
    "merged",
    "vary",
    "varying_axes",
]

NEVER: Final = np.uint32(0xFFFFFFFF)
"""Iteration of something that did not happen."""


class Rows(NamedTuple):
    """One entry for each measured node.

    Attributes:
        stats: uint32[n, columns], see `numcheck_jax.statistics`.
        runs: uint32[n], how often the node was computed.
        first: uint32[n], first loop iteration in which it was not finite.
        departure: float32[n], largest relative error against the shadow; shape [0]
            without a shadow.
    """

    stats: jax.Array
    runs: jax.Array
    first: jax.Array
    departure: jax.Array


def empty(count: int, measure: Measure, *, shadow: bool) -> Rows:
    """Return rows of nodes that were never computed, the identity of `merged`."""
    return Rows(
        empty_rows(count, measure),
        jnp.asarray(np.zeros(count, np.uint32)),
        jnp.asarray(np.full(count, NEVER)),
        jnp.asarray(np.zeros(count if shadow else 0, np.float32)),
    )


def merged(a: Rows, b: Rows, measure: Measure) -> Rows:
    """Return the rows of both runs of the same nodes together."""
    return Rows(
        merge_rows(a.stats, b.stats, measure),
        a.runs + b.runs,
        lax.min(a.first, b.first),
        lax.max(a.departure, b.departure),
    )


def concatenated(blocks: Sequence[Rows], measure: Measure, *, shadow: bool) -> Rows:
    """Return the rows of all blocks, one after another."""
    if not blocks:
        return empty(0, measure, shadow=shadow)
    columns = zip(*blocks, strict=True)
    return Rows(*(jnp.concatenate(column) for column in columns))


def at_iteration(rows: Rows, iteration: Any) -> Rows:
    """Return the rows of a loop's body as seen from outside: bad since `iteration`."""
    bad = is_bad(rows.stats)
    now = lax.convert_element_type(iteration, jnp.uint32)
    return rows._replace(first=jnp.where(bad, now, NEVER))


def departure_of(value: Any, shadow: Any) -> Any:
    """Return the relative L2 error as a traced float32; see `concrete.departure`."""
    v, s = (lax.convert_element_type(x, jnp.float32) for x in (value, shadow))
    both = jnp.isfinite(v) & jnp.isfinite(s)
    same = jnp.all(jnp.isfinite(v) == jnp.isfinite(s))
    v, s = jnp.where(both, v, 0), jnp.where(both, s, 0)
    # Scaled so that the squares neither overflow nor vanish.
    scale = lax.max(jnp.max(jnp.abs(s), initial=0), jnp.max(jnp.abs(v), initial=0))
    scale = jnp.where(scale > 0, scale, 1)
    error = jnp.sqrt(jnp.sum(jnp.square((v - s) / scale)))
    size = jnp.sqrt(jnp.sum(jnp.square(s / scale)))
    ratio = jnp.where(error > 0, error / size, 0)
    return jnp.where(same, ratio, jnp.inf)


def decode_into(
    graph: Graph,
    nodes: Sequence[int],
    rows: Rows,
    iteration: tuple[int, ...],
    *,
    label: Callable[[int], int] = int,
    shard: int | None = None,
) -> None:
    """Give nodes what their rows say, merged with what they have.

    Args:
        graph: where the nodes are.
        nodes: the node of each row.
        rows: full rows, concrete.
        iteration: loop counters around the program that gave the rows.
        label: the number that the program's own loop gives an iteration.
        shard: the device that gave them; a node keeps the first that went wrong.
    """
    stats, runs, firsts, gaps = map(np.asarray, rows)
    for k, index in enumerate(nodes):
        node = graph.nodes[index]
        site = node.site
        if site is None or not runs[k]:
            node.site = site if node.summary is not None else None
            continue
        found = decode(stats[k], node.aval.dtype, node.aval.size * int(runs[k]))
        detail, inner = site.detail, site.iteration[len(iteration) :]
        if shard is not None and found.is_finite is False and not node.is_bad:
            detail = (*detail, ("shard", shard))
        if firsts[k] != NEVER and not node.is_bad:
            inner = (label(int(firsts[k])),)
        node.site = dataclasses.replace(
            site, iteration=(*iteration, *inner), detail=detail
        )
        node.summary = found if node.summary is None else node.summary.merge(found)
        if gaps.size:
            node.departure = max(node.departure or 0.0, float(gaps[k]))


def empty_like(shape: Rows) -> Rows:
    """Return empty rows of the same shapes, varying over the same mesh axes."""
    measure = measure_of(shape.stats.shape[1])
    blank = empty(shape.runs.size, measure, shadow=shape.departure.size > 0)
    pairs = zip(blank, shape, strict=True)
    return Rows(*(vary(x, varying_axes(like)) for x, like in pairs))


def varying_axes(value: Any) -> frozenset[str]:
    """Return the mesh axes along which a value in a shard_map differs."""
    kind = value if isinstance(value, jax.ShapeDtypeStruct) else jax.typeof(value)
    # The attribute was renamed more than once between jax 0.8 and 0.10.
    for name in ("manual_axis_type", "mat"):
        if (found := getattr(kind, name, None)) is not None:
            return frozenset(found.varying)
    return frozenset(getattr(kind, "vma", ()) or ())


def vary(x: Any, axes: Iterable[str]) -> jax.Array:
    """Mark a value as differing along mesh axes."""
    need = tuple(sorted(frozenset(axes) - varying_axes(x), key=str))
    marked: jax.Array = lax.pcast(x, need, to="varying") if need else x
    return marked
