# SPDX-License-Identifier: Apache-2.0
"""Drops one update: the optimizer steps, but finds no gradients.

Every optimizer passes over parameters without a gradient, the fused ones included,
so nothing is written on any device and no step is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck_torch.optimizers import parameters_of

if TYPE_CHECKING:
    import torch

__all__ = ["Withheld"]


class Withheld:
    """The gradients of an optimizer, held back from the step it is about to make.

    Example:
        >>> import torch
        >>> w = torch.nn.Parameter(torch.ones(1))
        >>> w.grad = torch.full((1,), float("nan"))
        >>> sgd = torch.optim.SGD([w], lr=0.1)
        >>> held = Withheld(sgd)
        >>> sgd.step()
        >>> held.give_back()
        >>> w.item(), w.grad.item()
        (1.0, nan)
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._held = [(p, p.grad) for p in parameters_of(optimizer)]
        for parameter, _ in self._held:
            parameter.grad = None

    def give_back(self) -> None:
        """Put the gradients back where the program left them."""
        for parameter, gradient in self._held:
            parameter.grad = gradient
