# SPDX-License-Identifier: Apache-2.0
"""Which module an operator runs in: a stack kept by PyTorch's global module hooks.

Global hooks leave the user's modules, and the hooks on them, untouched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.hooks import RemovableHandle

__all__ = ["ModuleStack"]

Scope = tuple[str, str]


class ModuleStack:
    """The modules whose `forward` is running, while entered as a context manager.

    Args:
        root: its submodules' dotted paths are the scopes. A module outside it (a loss
            made on the fly) keeps the scope of the module that calls it, under its
            own class name.
    """

    def __init__(self, root: nn.Module | None = None) -> None:
        self._names = (
            {} if root is None else {id(m): n for n, m in root.named_modules()}
        )
        self._stack: list[Scope] = [("", "")]
        self._handles: list[RemovableHandle] = []

    @property
    def top(self) -> Scope:
        """Path and class name of the innermost running module."""
        return self._stack[-1]

    def push(self, scope: str, scope_type: str) -> None:
        """Enter a module by name, for operators that are re-run outside of it."""
        self._stack.append((scope, scope_type))

    def pop(self) -> None:
        """Leave the innermost module."""
        if len(self._stack) > 1:
            self._stack.pop()

    def __enter__(self) -> Self:
        """Start following the modules."""
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        del self._stack[1:]

    def _enter(self, module: nn.Module, args: Any) -> None:
        name = self._names.get(id(module))
        self.push(self.top[0] if name is None else name, type(module).__name__)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self.pop()
