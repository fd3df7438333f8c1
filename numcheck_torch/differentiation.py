# SPDX-License-Identifier: Apache-2.0
"""Takes gradients once more, and leaves ``.grad`` and what hangs on it alone.

A re-entrant checkpoint runs the engine again from inside the engine and lets it write
into ``.grad``; it refuses every other way. There what is written is taken out again.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

from numcheck_torch.graph import leaves_behind, nodes_behind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["gradients_of"]

_REENTRANT = "CheckpointFunctionBackward"
"""Also the name in libraries that have a checkpoint of their own by this pattern."""


def gradients_of(
    roots: Sequence[torch.Tensor],
    leaves: Sequence[torch.Tensor],
    seeds: Sequence[torch.Tensor | None],
    *,
    retains: bool = False,
    creates: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradient of each leaf; None for one that has no part in the roots.

    Args:
        roots: what to differentiate.
        leaves: by what.
        seeds: gradients at the roots.
        retains: keep the graph for another run.
        creates: let the gradients be differentiated again.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> gradients_of([(x * 3).sum()], [x], [None]), x.grad
        ((tensor([3., 3.]),), None)
    """
    if not any(node.name() == _REENTRANT for node in nodes_behind(roots)):
        return torch.autograd.grad(
            roots,
            leaves,
            seeds,
            retain_graph=retains,
            create_graph=creates,
            allow_unused=True,
        )
    with _written_to((*leaves, *leaves_behind(roots))):
        torch.autograd.backward(
            roots, seeds, retain_graph=retains, create_graph=creates
        )
        return tuple(leaf.grad for leaf in leaves)


@contextlib.contextmanager
def _written_to(leaves: Iterable[torch.Tensor]) -> Iterator[None]:
    """Give leaves an empty ``.grad`` for a block in which no hook hears of it."""
    distinct = {id(leaf): leaf for leaf in leaves if leaf.is_leaf}.values()
    before = [(leaf, leaf.grad) for leaf in distinct]
    hooks = [h for leaf in distinct if (h := leaf._post_accumulate_grad_hooks)]
    held = [dict(h) for h in hooks]
    try:
        # The engine holds on to the very dictionaries.
        for asleep in hooks:
            asleep.clear()
        for leaf in distinct:
            leaf.grad = None
        yield
    finally:
        for leaf, gradient in before:
            leaf.grad = gradient
        for asleep, own in zip(hooks, held, strict=True):
            asleep.update(own)
