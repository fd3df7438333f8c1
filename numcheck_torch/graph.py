# SPDX-License-Identifier: Apache-2.0
"""Questions about the autograd graph behind a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

__all__ = ["reaches"]

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
    waiting = [r.grad_fn for r in roots if isinstance(r, torch.Tensor)]
    seen: set[Any] = set()
    while waiting and len(seen) < _FURTHEST:
        node: Any = waiting.pop()
        if node is None or node in seen:
            continue
        if node in wanted or id(getattr(node, "variable", None)) in leaves:
            return True
        seen.add(node)
        waiting.extend(edge for edge, _ in node.next_functions)
    return False
