# SPDX-License-Identifier: Apache-2.0
"""The module inside wrappers that change how it runs, not what it computes."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.guard import GoneError
from numcheck_torch.lasting import Lasting
from numcheck_torch.weak_method import WeakMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
        owner: who alone can go on with a step, where that is not the module.
        gone: called when nobody can any more, unless its own object is gone too.

    Attributes:
        owner: refers to that owner.
    """

    def __init__(
        self,
        watched: torch.nn.Module | Mapping[str, torch.nn.Module],
        owner: object | None = None,
        gone: Callable[[], None] | None = None,
    ) -> None:
        self._tree: torch.nn.Module | None = None
        if not isinstance(watched, torch.nn.Module):
            cores = {name: core_of(module) for name, module in watched.items()}
            watched = self._tree = torch.nn.ModuleDict(cores)
        self._module = weakref.ref(core_of(watched))
        self._lasting: weakref.ref[Lasting] | None = None
        self.owner: weakref.ref[Any] = weakref.ref(
            self._module() if owner is None else owner,
            None if gone is None else _caller(WeakMethod(gone)),
        )

    @property
    def module(self) -> torch.nn.Module:
        """The module, or the tree of several.

        Raises:
            GoneError: the module is gone.
        """
        module = self._module()
        if module is not None:
            return module
        lasting = None if self._lasting is None else self._lasting()
        if lasting is None:
            raise GoneError("the watched module no longer exists")
        return lasting.module

    def path(self, module: torch.nn.Module) -> str:
        """Return the path of one of several modules; empty for one alone."""
        named = self.module.named_modules()
        return next((name for name, part in named if part is module), "")

    def lasting(self, module: torch.nn.Module | None = None) -> Lasting:
        """Return what keeps the module, or another one it is part of, callable.

        Args:
            module: that other one, perhaps inside wrappers.
        """
        if module is not None and module is not self._module():
            module = core_of(module)
            if module is not self._module():
                return Lasting(module)
        known = None if self._lasting is None else self._lasting()
        if known is None:
            known = Lasting(self.module)
            self._lasting = weakref.ref(known)
        return known


def _caller(method: WeakMethod) -> Callable[[object], None]:
    """Return what calls a method while its object lives.

    At exit half of what the call needs is torn down, and nobody listens.
    """
    is_exiting = sys.is_finalizing

    def call(_: object) -> None:
        bound = None if is_exiting() else method()
        if bound is not None:
            bound()

    return call
