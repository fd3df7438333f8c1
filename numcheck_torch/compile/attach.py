# SPDX-License-Identifier: Apache-2.0
"""Finds what is compiled in a module, and observes it for a while.

A compiled module, or part of one, is compiled a second time with its own backend
wrapped. The user's compiled code stays in its cache and is found again afterwards.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import torch
from torch._dynamo.eval_frame import OptimizedModule, _TorchDynamoContext

from numcheck.record.notice import notice
from numcheck_torch.compile.backend import observed_backend
from numcheck_torch.compile.observer import Observer
from numcheck_torch.scope import plain_path
from numcheck_torch.versions import innermost_backend, is_fullgraph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

__all__ = ["observed"]


@contextlib.contextmanager
def observed(
    module: nn.Module, observer: Observer | None = None, scope: str = ""
) -> Iterator[Observer]:
    """Observe the compiled parts of a module inside the block.

    Args:
        module: a module that `torch.compile` returned, one on which ``compile()`` was
            called, or one with such parts.
        observer: of other modules of the same program; a new one by default.
        scope: path of the module in what is watched.

    Example:
        >>> net = torch.compile(torch.nn.ReLU(), backend="aot_eager")
        >>> with observed(net) as observer:
        ...     y = net(torch.ones(2))
        >>> observer.graphs
        1
    """
    observer = Observer() if observer is None else observer
    with contextlib.ExitStack() as stack:
        for name, part in module.named_modules():
            path = ".".join(filter(None, (scope, plain_path(name))))
            if isinstance(part, OptimizedModule):
                stack.enter_context(_observed_wrapper(part, observer, path))
            elif part._compiled_call_impl is not None:
                stack.enter_context(_observed_in_place(part, observer, path))
        yield observer


@contextlib.contextmanager
def _observed_wrapper(
    module: OptimizedModule, observer: Observer, prefix: str
) -> Iterator[None]:
    context = module.dynamo_ctx
    again = _again(context, observer, prefix, type(module._orig_mod))
    if again is None:
        yield
        return
    forward = module.forward
    observer.modules.update(map(id, module.modules()))
    try:
        module.dynamo_ctx = again
        module._initialize()
        yield
    finally:
        module.dynamo_ctx = context
        module.forward = forward


@contextlib.contextmanager
def _observed_in_place(
    module: nn.Module, observer: Observer, prefix: str
) -> Iterator[None]:
    found = _compiled_call(module)
    again = (
        None if found is None else _again(found.context, observer, prefix, type(module))
    )
    if found is None or again is None:
        closed = notice("notice.module_closed", module=prefix)
        observer.note(closed if prefix else "notice.model_closed")
        yield
        return
    observer.modules.update(map(id, module.modules()))
    try:
        found.replace(again(module._call_impl))
        yield
    finally:
        found.replace(found.function)


@dataclasses.dataclass(frozen=True, slots=True)
class _CompiledCall:
    """A compiled function, and how to put another one in its place."""

    context: _TorchDynamoContext
    function: Any
    replace: Callable[[Any], None]


def _compiled_call(module: nn.Module) -> _CompiledCall | None:
    """Find what a module compiled in place calls, inside of what wraps it."""

    def replace(function: Any) -> None:
        module._compiled_call_impl = function

    return _search(module._compiled_call_impl, replace, depth=4)


def _search(
    function: Any, replace: Callable[[Any], None], depth: int
) -> _CompiledCall | None:
    cells = getattr(function, "__closure__", None) or ()
    for cell in cells:
        if isinstance(cell.cell_contents, _TorchDynamoContext):
            return _CompiledCall(cell.cell_contents, function, replace)
    for cell in cells if depth else ():
        if callable(cell.cell_contents):
            put = functools.partial(setattr, cell, "cell_contents")
            found = _search(cell.cell_contents, put, depth - 1)
            if found is not None:
                return found
    return None


def _again(context: Any, observer: Observer, prefix: str, kind: type[nn.Module]) -> Any:
    """Return what compiles as a context of Dynamo's does, observed."""
    callback = getattr(context, "callback", None)
    if not callable(callback):
        observer.note("notice.compiled_otherwise")
        return None
    backend = innermost_backend(callback)
    options = getattr(backend, "config", {})
    if isinstance(options, dict) and options.get("triton.cudagraphs"):
        observer.note("notice.cuda_graphs")
    return torch._dynamo.optimize(
        observed_backend(backend, observer, prefix, kind.__name__),
        nopython=is_fullgraph(context),
        dynamic=getattr(context, "_dynamic", None),
    )
