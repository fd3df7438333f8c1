# SPDX-License-Identifier: Apache-2.0
"""The module inside wrappers that change how it runs, not what it computes."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Subject", "core_of"]

_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
}


def core_of(model: torch.nn.Module) -> torch.nn.Module:
    """Return the module inside compiled and data-parallel wrappers.

    Matched by class name, since importing those classes costs seconds.

    Example:
        >>> inner = torch.nn.Linear(2, 1)
        >>> core_of(torch.nn.DataParallel(inner)) is inner
        True
    """
    attribute = _WRAPPERS.get(type(model).__name__)
    inner = None if attribute is None else getattr(model, attribute, None)
    return core_of(inner) if isinstance(inner, torch.nn.Module) else model


class Subject:
    """What a monitor watches: one module, held weakly, or several as one tree.

    Args:
        watched: the module, or modules by name.
    """

    def __init__(
        self, watched: torch.nn.Module | Mapping[str, torch.nn.Module]
    ) -> None:
        self._tree: torch.nn.Module | None = None
        if not isinstance(watched, torch.nn.Module):
            cores = {name: core_of(module) for name, module in watched.items()}
            watched = self._tree = torch.nn.ModuleDict(cores)
        self._module = weakref.ref(core_of(watched))

    @property
    def module(self) -> torch.nn.Module:
        """The module, or the tree of several.

        Raises:
            ReferenceError: the module is gone.
        """
        module = self._module()
        if module is None:
            raise ReferenceError("the watched module no longer exists")
        return module
