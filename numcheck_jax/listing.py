# SPDX-License-Identifier: Apache-2.0
"""From the interpreter's graph to the trace's list of sites."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from numcheck_jax.phase import guess_losses, phases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numcheck.record.site import Site
    from numcheck_jax.interpreter.graph import Graph, Node

__all__ = ["Listing", "listing"]


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """The sites of a graph.

    Attributes:
        sites: in execution order, with phases and parents.
        nodes: for each site its node.
        stands_for: for each node the sites whose value it is or was made of.
    """

    sites: tuple[Site, ...]
    nodes: tuple[int, ...]
    stands_for: tuple[tuple[int, ...], ...]

    def site_of(self, node: int | None) -> int | None:
        """Return the last site that a node stands for; None when there is none."""
        if node is None or not self.stands_for[node]:
            return None
        return self.stands_for[node][-1]


def listing(
    graph: Graph,
    outputs: Sequence[int | None],
    losses: Sequence[int] | None,
    *,
    offset: int = 0,
    bridges: bool,
) -> Listing:
    """Return the sites of a graph.

    Args:
        graph: what was noted.
        outputs: the nodes of the program's outputs.
        losses: positions of the losses among the outputs; None when not known.
        offset: index of the first site.
        bridges: whether an unlisted node between two sites joins them, as when only
            some equations are measured; otherwise flags and keys end the flow.
    """
    if losses is None or not outputs:
        known = guess_losses(graph, outputs)
    else:
        known = [n for k in losses if (n := outputs[k]) is not None]
    sites: list[Site] = []
    nodes: list[int] = []
    stands_for: list[tuple[int, ...]] = []
    when = phases(graph, known, outputs)
    for i, node in enumerate(graph.nodes):
        parents = tuple(s for p in node.parents for s in stands_for[p])
        if node.site is not None:
            index = offset + len(sites)
            site = dataclasses.replace(
                node.site, index=index, phase=when[i], parents=parents
            )
            sites.append(_sparing(site, node, stands_for) if node.spared else site)
            nodes.append(i)
            stands_for.append((index,))
        elif node.is_through or bridges:
            stands_for.append(tuple(dict.fromkeys(parents)))
        else:
            stands_for.append(())
    return Listing(tuple(sites), tuple(nodes), tuple(stands_for))


def _sparing(site: Site, node: Node, stands_for: Sequence[tuple[int, ...]]) -> Site:
    """Return the site with the places of the parents from which it took nothing bad."""
    read = [p for p in node.parents for _ in stands_for[p]]
    places = (str(place) for place, p in enumerate(read) if p in node.spared)
    detail = (*site.detail, ("spared", " ".join(places)))
    return dataclasses.replace(site, detail=detail)
