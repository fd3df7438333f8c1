# SPDX-License-Identifier: Apache-2.0
"""The parameters of the watched module, by name, without walking it at every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from numcheck_torch.unwrap import Subject

__all__ = ["Parameters"]

_LASTS = 64
"""Steps after which the list is made anew: walking the modules costs more than the
check itself, and parameters seldom come and go."""


class Parameters:
    """A module's parameters.

    Args:
        subject: the module.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._named: list[tuple[str, torch.nn.Parameter]] = []
        self._made_at: int | None = None

    def named(self, step: int) -> list[tuple[str, torch.nn.Parameter]]:
        """Return (name, parameter) of each.

        Args:
            step: the present step.
        """
        made = self._made_at
        if made is None or not made <= step < made + _LASTS:
            self._named = list(self._subject.module.named_parameters())
            self._made_at = step
        return self._named

    def gradients(self, step: int) -> list[tuple[str, torch.Tensor]]:
        """Return (name, gradient) of each parameter that has one."""
        return [(n, g) for n, p in self.named(step) if (g := p.grad) is not None]

    def are_among(self, listed: list[Any], step: int) -> bool:
        """Whether every parameter that has a gradient is in a list."""
        known = {id(p) for p in listed}
        return all(id(p) in known for _, p in self.named(step) if p.grad is not None)
