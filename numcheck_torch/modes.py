# SPDX-License-Identifier: Apache-2.0
"""A dispatch mode *under* all others of this thread.

A mode pushed from inside a hook would sit on top of the modes the user is in, and
leaving those would pop the wrong one. At the bottom it disturbs nobody's order.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["away", "insert", "is_active", "none", "outside", "remove", "unseen"]

_dispatch_modes: Final = torch._C._len_torch_dispatch_stack
_function_modes: Final = torch._C._len_torch_function_stack
_NoDispatch: Final = torch._C._DisableTorchDispatch
_NoFunctions: Final = torch._C.DisableTorchFunction

P = ParamSpec("P")
R = TypeVar("R")


def insert(mode: Any) -> None:
    """Put a dispatch mode under all modes of this thread, unless it is there."""
    if not torch._C._len_torch_dispatch_stack():
        torch._C._push_on_torch_dispatch_stack(mode)
        return
    _clear_left()
    modes = _stack()
    if not any(there is mode for there in modes):
        # What stands in for a device lies below everything that watches it.
        floor = [m for m in modes if getattr(m, "is_device", False) and m is not mode]
        floor = [] if getattr(mode, "is_device", False) else floor
        _replace(modes, [*floor, mode, *modes[len(floor) :]])


def _clear_left() -> None:
    """Take modes that are over off this thread's stack: nobody else could."""
    modes = _stack()
    left = [m for m in modes if not getattr(m, "is_over", False)]
    if len(left) < len(modes):
        _replace(modes, left)


def remove(mode: Any) -> None:
    """Take a dispatch mode out from under the modes of this thread."""
    if torch._C._len_torch_dispatch_stack() == 1:
        if torch._C._get_dispatch_stack_at(0) is mode:
            torch._C._pop_torch_dispatch_stack(None)
        return
    modes = _stack()
    if any(there is mode for there in modes):
        _replace(modes, [there for there in modes if there is not mode])


@contextlib.contextmanager
def away(mode: Any) -> Iterator[None]:
    """Run a block that a dispatch mode need not hear, if it alone is on the stack."""
    is_alone = torch._C._len_torch_dispatch_stack() == 1
    if not is_alone or torch._C._get_dispatch_stack_at(0) is not mode:
        yield
        return
    torch._C._pop_torch_dispatch_stack(None)
    try:
        yield
    finally:
        torch._C._push_on_torch_dispatch_stack(mode)


def is_active(mode: Any) -> bool:
    """Whether the mode is on this thread's stack."""
    return any(there is mode for there in _stack())


def none() -> contextlib.AbstractContextManager[object]:
    """Run a block that is nobody's program: no mode of this thread sees it."""
    return _disable_current_modes() if _are_any() else contextlib.nullcontext()


def outside(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what a call gives that is nobody's program; quicker than a block."""
    if _are_any():
        with _disable_current_modes():
            return function(*args, **kwargs)
    return function(*args, **kwargs)


def unseen(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what a call gives that is nobody's program and runs no modes itself.

    Modes stay where they are and are passed over, which is a tenth of the work. A
    device that was added to PyTorch may be written in Python, and be passed over too:
    there they are taken off.
    """
    if _device_name() != "privateuseone":
        return outside(function, *args, **kwargs)
    if _are_any():
        with _NoDispatch(), _NoFunctions():
            return function(*args, **kwargs)
    return function(*args, **kwargs)


def _device_name() -> str:
    """Return the name of the device that was added, `privateuseone` without one."""
    name: str = torch._C._get_privateuse1_backend_name()
    return name


def _are_any() -> bool:
    return bool(_dispatch_modes() or _function_modes())


def _stack() -> list[Any]:
    size = torch._C._len_torch_dispatch_stack()
    return [torch._C._get_dispatch_stack_at(i) for i in range(size)]


def _replace(old: list[Any], new: list[Any]) -> None:
    for _ in old:
        torch._C._pop_torch_dispatch_stack(None)
    for mode in new:
        torch._C._push_on_torch_dispatch_stack(mode)
