# SPDX-License-Identifier: Apache-2.0
"""Which module an operator runs in: a stack kept by PyTorch's global module hooks.

Global hooks leave the user's modules, and the hooks on them, untouched.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Self

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from torch import nn
    from torch.utils.hooks import RemovableHandle

__all__ = ["ModuleStack", "is_compiled", "plain_path"]

Scope = tuple[str, str]


class ModuleStack:
    """The modules whose `forward` is running, while entered as a context manager.

    Where a part is compiled, hooks go to the modules themselves: global ones would be
    compiled into it, and PyTorch warns of them.

    Args:
        root: its submodules' dotted paths are the scopes. A module outside it (a loss
            made on the fly) keeps the scope of the module that calls it, under its
            own class name.
        compiled: ids of the modules that run inside compiled code, where known.
        stays_compiled: leave the compiled parts of it alone.

    Attributes:
        on_leave: called with a module's scope and what it returned.
    """

    def __init__(
        self,
        root: nn.Module | None = None,
        *,
        compiled: Container[int] | None = None,
        stays_compiled: bool = False,
    ) -> None:
        self._compiled = compiled
        self._root = (lambda: None) if root is None else weakref.ref(root)
        self._stays_compiled = stays_compiled
        self._names = (
            {}
            if root is None
            else {id(m): plain_path(n) for n, m in root.named_modules()}
        )
        self._stack: list[Scope] = [("", "")]
        self._handles: list[RemovableHandle] = []
        self.on_leave: Callable[[Scope, Any], object] | None = None

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
        root = self._root()
        has_compiled = self._compiled is not None or (
            root is not None and is_compiled(root)
        )
        if not has_compiled:
            self._handles = [
                register_module_forward_pre_hook(self._enter),
                register_module_forward_hook(self._leave, always_call=True),
            ]
            return self
        for module in self._running_eagerly(root):
            self._handles.append(module.register_forward_pre_hook(self._enter))
            self._handles.append(
                module.register_forward_hook(self._leave, always_call=True)
            )
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        del self._stack[1:]

    def _enter(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        name = self._names.get(id(module))
        self.push(self.top[0] if name is None else name, type(module).__name__)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        if self.on_leave is not None:
            # The root may have been entered before anybody followed.
            path = self._names.get(id(module), self.top[0])
            self.on_leave((path, type(module).__name__), output)
        self.pop()

    def _running_eagerly(self, module: nn.Module | None) -> Iterator[nn.Module]:
        """Yield the modules whose calls Python sees, wrappers left out."""
        if module is None:
            return
        is_inside = self._compiled is not None and id(module) in self._compiled
        if is_inside or (self._stays_compiled and _is_compiled(module)):
            return
        if not _is_wrapper(module):
            yield module
        for child in module.children():
            yield from self._running_eagerly(child)


def plain_path(path: str) -> str:
    """Return a path as the module that was compiled has it.

    Example:
        >>> plain_path("_orig_mod.layers.0")
        'layers.0'
    """
    return ".".join(part for part in path.split(".") if part != "_orig_mod")


def is_compiled(module: nn.Module) -> bool:
    """Whether a module, or a part of it, runs compiled.

    Example:
        >>> import torch
        >>> is_compiled(torch.nn.Sequential(torch.compile(torch.nn.ReLU())))
        True
    """
    return any(map(_is_compiled, module.modules()))


def _is_compiled(module: nn.Module) -> bool:
    return _is_wrapper(module) or module._compiled_call_impl is not None


def _is_wrapper(module: nn.Module) -> bool:
    """Whether it is what `torch.compile` returned; known without loading Dynamo."""
    return "_orig_mod" in module._modules and hasattr(module, "dynamo_ctx")
