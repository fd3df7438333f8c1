# SPDX-License-Identifier: Apache-2.0
"""A module that can be called once more when nobody holds it any longer.

A loop that gives up in the middle of a step drops its model, and the step was not
looked at yet. Holding the model itself would hide that it was dropped. Its contents
are held instead: the module goes when its last user goes, and another of the same
class, with the same contents, can stand in for it.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["Lasting"]


class Lasting:
    """What makes up a module, but not the module.

    Args:
        module: what may go.

    Example:
        >>> import torch
        >>> linear = torch.nn.Linear(2, 1)
        >>> weight, lasting = linear.weight, Lasting(linear)
        >>> lasting.module is linear
        True
        >>> del linear
        >>> lasting.module.weight is weight
        True
    """

    __slots__ = ("__weakref__", "_contents", "_kind", "_other", "_reference")

    def __init__(self, module: torch.nn.Module) -> None:
        self._reference = weakref.ref(module)
        self._kind: Any = type(module)
        self._contents = module.__dict__
        self._other: torch.nn.Module | None = None

    @property
    def module(self) -> torch.nn.Module:
        """The module, or once it is gone the one that stands in for it."""
        module = self._reference()
        if module is not None:
            return module
        if self._other is None:
            self._other = self._kind.__new__(self._kind)
            object.__setattr__(self._other, "__dict__", self._contents)
        return self._other
