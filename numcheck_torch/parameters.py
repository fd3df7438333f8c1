# SPDX-License-Identifier: Apache-2.0
"""The parameters of the watched module, by name, without walking it at every step."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import is_lazy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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
        self._have_values = False

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

    def are_at_hand(self, step: int) -> bool:
        """Whether they hold numbers and stand in their places.

        Lazy ones and those to be loaded later hold none yet, and in a functional call
        other values stand in their places.

        Args:
            step: the present step.
        """
        if not self._have_values:
            lazy: Callable[[Any], bool] = is_lazy
            found: list[Any] = list(self._subject.module.parameters())
            if any(lazy(p) or p.is_meta for p in found):
                return False
            if not all(isinstance(p, torch.nn.Parameter) for p in found):
                return False
            self._have_values = True
        self.named(step)
        plain = torch.nn.Parameter
        for table, name in self._ends:
            value = table.get(name)
            # Asked about parameters, `isinstance` runs code of PyTorch's.
            is_parameter = type(value) is plain or isinstance(value, plain)
            if not is_parameter and name in table:
                return False
        return True

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
