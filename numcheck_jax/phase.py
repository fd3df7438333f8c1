# SPDX-License-Identifier: Apache-2.0
"""Forward, backward or optimizer, decided from what depends on what.

The name stack alone cannot tell: derivative coefficients that are computed while
linearising carry `jvp` like the forward pass, yet no loss depends on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck_jax.columns import is_float

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numcheck.record.site import Phase
    from numcheck_jax.interpreter.graph import Graph, Node

__all__ = ["guess_losses", "phases"]


def guess_losses(graph: Graph, outputs: Sequence[int | None]) -> list[int]:
    """Return the nodes taken for the loss when nobody said which output it is.

    Scalar float outputs that no backward computation feeds; else, as in a bare
    gradient, the last scalar that the forward pass computes and drops; else every
    output that no backward computation feeds.
    """
    after = graph.descendants(_transposed(graph))
    free = [n for n in outputs if n is not None and n not in after]
    scalars = [n for n in free if _is_scalar_float(graph.nodes[n])]
    if scalars:
        return scalars
    children = graph.children()
    dropped = [
        i
        for i, node in enumerate(graph.nodes)
        if not children[i] and i not in after and _is_scalar_float(node)
    ]
    return dropped[-1:] or free


def phases(
    graph: Graph, losses: Iterable[int], outputs: Iterable[int | None] = ()
) -> list[Phase]:
    """Return the phase of every node.

    What a loss depends on is forward; what is transposed, or differentiated without
    feeding a loss or a value handed back beside it, is backward; what comes of
    gradients otherwise is optimizer. The rest (learning-rate schedules, masks) goes
    with those that read it.
    """
    transposed = _transposed(graph)
    if not transposed:
        return [_source_or(node, "forward") for node in graph.nodes]
    after_backward = graph.descendants(transposed)
    beside = (o for o in outputs if o is not None and o not in after_backward)
    before_loss, before_others = graph.ancestors(losses), graph.ancestors(beside)
    children = graph.children()
    found: list[Phase | None] = [None] * len(graph.nodes)
    for i, node in enumerate(graph.nodes):
        if node.place.is_transposed:
            found[i] = "backward"
        elif i in before_loss:
            found[i] = "forward"
        elif node.place.is_differentiated:
            found[i] = "forward" if i in before_others else "backward"
        elif i in after_backward:
            found[i] = "optimizer"
    _mark_recomputed(graph, found)
    for i in range(len(graph.nodes) - 1, -1, -1):
        if found[i] is None:
            found[i] = _of_readers({found[c] for c in children[i]})
    return [
        _source_or(node, phase or "forward")
        for node, phase in zip(graph.nodes, found, strict=True)
    ]


def _mark_recomputed(graph: Graph, found: list[Phase | None]) -> None:
    """Tell what remat computes again from the derivatives computed beside it.

    Both stand under the same names; only the former was computed forward too.
    """
    seen = {
        _likeness(node)
        for node, phase in zip(graph.nodes, found, strict=True)
        if phase == "forward"
    }
    for i, node in enumerate(graph.nodes):
        if (
            node.place.is_transposed
            and node.place.is_recomputed
            and _likeness(node) in seen
        ):
            found[i] = "recompute"


def _likeness(node: Node) -> object:
    site = node.site
    return site and (site.op, site.output, site.shape, site.dtype, site.source)


def _of_readers(readers: set[Phase | None]) -> Phase:
    if not readers or "forward" in readers:
        return "forward"
    return "optimizer" if readers == {"optimizer"} else "backward"


def _source_or(node: Node, phase: Phase) -> Phase:
    site = node.site
    return site.phase if site is not None and site.kind == "source" else phase


def _transposed(graph: Graph) -> list[int]:
    return [i for i, n in enumerate(graph.nodes) if n.place.is_transposed]


def _is_scalar_float(node: Node) -> bool:
    dtype = getattr(node.aval, "dtype", None)
    return dtype is not None and node.aval.shape == () and is_float(dtype)
