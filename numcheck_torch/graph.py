# SPDX-License-Identifier: Apache-2.0
"""Questions about the autograd graph behind a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

__all__ = ["leaves_behind", "nodes_behind", "reaches"]

_FURTHEST = 10_000


def reaches(
    roots: Iterable[Any],
    targets: Iterable[torch.Tensor],
    leaves: AbstractSet[int] = frozenset(),
) -> bool:
    """Whether the graph behind the roots leads to a target or one of the leaves.

    Args:
        roots: tensors; what else may be differentiated is passed over.
        targets: tensors that an operator made.
        leaves: parameters, by identity.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> y = x * 2
        >>> reaches([y.sum()], [y]), reaches([x.sum()], [y])
        (True, False)
        >>> reaches([x.sum()], [], {id(x)})
        True
    """
    wanted = {t.grad_fn for t in targets if t.grad_fn is not None}
    return any(
        node in wanted or id(getattr(node, "variable", None)) in leaves
        for node in nodes_behind(roots)
    )


def nodes_behind(roots: Iterable[Any]) -> Iterator[Any]:
    """Yield each node of the graph behind the roots, the nearest of a path first.

    Args:
        roots: tensors; what else may be differentiated is passed over.
    """
    waiting = [r.grad_fn for r in roots if isinstance(r, torch.Tensor)]
    seen: set[Any] = set()
    while waiting and len(seen) < _FURTHEST:
        node: Any = waiting.pop()
        if node is None or node in seen:
            continue
        yield node
        seen.add(node)
        waiting.extend(edge for edge, _ in node.next_functions)


def leaves_behind(roots: Iterable[Any]) -> list[torch.Tensor]:
    """Return the tensors at the ends of the graph, whose ``.grad`` would be written.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> leaves_behind([(x * 2).sum()])[0] is x
        True
    """
    found = (getattr(node, "variable", None) for node in nodes_behind(roots))
    return [leaf for leaf in found if leaf is not None]
