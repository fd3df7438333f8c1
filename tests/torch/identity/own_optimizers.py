# SPDX-License-Identifier: Apache-2.0
"""Optimizers that keep more than their state: others, or their parameters once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tests.torch.identity.programs import batch, simple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.torch.identity.programs import Program


class Lookahead(torch.optim.Optimizer):
    """Steps another optimizer, and now and then goes half the way back."""

    def __init__(self, fast: torch.optim.Optimizer) -> None:
        super().__init__([p for g in fast.param_groups for p in g["params"]], {})
        self.fast = fast
        self.slow = [p.detach().clone() for p in self.param_groups[0]["params"]]
        self.count = 0

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.fast.step()
        self.count += 1
        if self.count % 2 == 0:
            pairs = zip(self.param_groups[0]["params"], self.slow, strict=True)
            with torch.no_grad():
                for parameter, slow in pairs:
                    slow.lerp_(parameter, 0.5)
                    parameter.copy_(slow)


class Several(torch.optim.Optimizer):
    """Steps one optimizer for the weights and one for the rest."""

    def __init__(self, model: nn.Module) -> None:
        parameters = list(model.parameters())
        super().__init__(parameters, {})
        self.parts = [
            torch.optim.SGD([p for p in parameters if p.dim() > 1], lr=0.1),
            torch.optim.Adam([p for p in parameters if p.dim() < 2], lr=0.01),
        ]

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()


class Averaging(torch.optim.Optimizer):
    """Keeps its parameters and averages of their gradients in lists of its own."""

    def __init__(self, model: nn.Module) -> None:
        self.mine = list(model.parameters())
        self.averages = [torch.zeros_like(p) for p in self.mine]
        super().__init__(self.mine, {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for parameter, average in zip(self.mine, self.averages, strict=True):
            if parameter.grad is not None:
                average.lerp_(parameter.grad, 0.3)
                parameter.sub_(average, alpha=0.1)


def _trained_by(
    optimizer: Callable[[nn.Module], torch.optim.Optimizer],
) -> Callable[[], Program]:
    def made() -> Program:
        model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
        return simple(
            model, lambda m, i: m(batch(i, 5)).square().mean(), optimizer(model)
        )

    return made


OWN_OPTIMIZERS: dict[str, Callable[[], Program]] = {
    "an optimizer around another": _trained_by(
        lambda m: Lookahead(torch.optim.Adam(m.parameters(), lr=0.05))
    ),
    "an optimizer around several": _trained_by(Several),
    "an optimizer with lists of its own": _trained_by(Averaging),
}
