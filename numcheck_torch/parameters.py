# SPDX-License-Identifier: Apache-2.0
"""The parameters of the watched module, by name, without walking it at every step."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
        self._ends: list[tuple[dict[str, Any], str]] = []
        self._made_at: int | None = None

    def named(self, step: int) -> list[tuple[str, torch.nn.Parameter]]:
        """Return (name, parameter) of each.

        Args:
            step: the present step.
        """
        made = self._made_at
        if made is None or not made <= step < made + _LASTS:
            module = self._subject.module
            found: list[tuple[str, Any]] = list(module.named_parameters())
            if not all(isinstance(p, torch.nn.Parameter) for _, p in found):
                # Others stand in their places for as long as a call lasts.
                return [(n, p) for n, p in found if isinstance(p, torch.nn.Parameter)]
            self._named, self._made_at = found, step
            self._ends = [*_places(module, [n for n, _ in found[:1] + found[-1:]])]
        return self._named

    def are_replaced(self, step: int) -> bool:
        """Whether other values stand in their places: in a functional call.

        Args:
            step: the present step.
        """
        if self._made_at is None:
            named = self._subject.module.named_parameters()
            return not all(isinstance(p, torch.nn.Parameter) for _, p in named)
        self.named(step)
        return any(
            not isinstance(table.get(name), torch.nn.Parameter)
            for table, name in self._ends
            if name in table
        )

    def gradients(self, step: int) -> list[tuple[str, torch.Tensor]]:
        """Return (name, gradient) of each parameter that has one."""
        return [(n, g) for n, p in self.named(step) if (g := p.grad) is not None]

    def are_among(self, listed: list[Any], step: int) -> bool:
        """Whether every parameter that has a gradient is in a list."""
        known = {id(p) for p in listed}
        return all(id(p) in known for _, p in self.named(step) if p.grad is not None)


def _places(
    module: torch.nn.Module, names: Iterable[str]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the table that each parameter stands in, and its name there."""
    for name in names:
        path, _, last = name.rpartition(".")
        owner: Any = functools.reduce(getattr, filter(None, path.split(".")), module)
        if isinstance(owner._parameters, dict):  # a scripted module has no table
            yield owner._parameters, last
