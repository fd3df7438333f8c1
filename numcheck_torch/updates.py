# SPDX-License-Identifier: Apache-2.0
"""Hears every optimizer's step, for all monitors of the process through one hook.

PyTorch walks through its table of hooks at each step, and another thread that begins
or ends to watch its own model must not change that table meanwhile. So there is one
hook as long as anybody listens, and the listeners are a tuple.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

    from numcheck_torch.hooks import Listener

__all__ = ["listen", "unlisten"]


class _Ears:
    def __init__(self) -> None:
        self.listeners: tuple[weakref.ref[Listener], ...] = ()
        self.handles: tuple[RemovableHandle, ...] = ()
        self.lock = threading.Lock()


_EARS: Final = _Ears()


def listen(listener: Listener) -> None:
    """Tell a listener, held weakly, of every step."""
    with _EARS.lock:
        _EARS.listeners = (*_living(None), weakref.ref(listener))
        if not _EARS.handles:
            _EARS.handles = (
                register_optimizer_step_pre_hook(_before),
                register_optimizer_step_post_hook(_after),
            )


def unlisten(listener: Listener) -> None:
    """Tell it no more; the last one takes the hook along."""
    with _EARS.lock:
        _EARS.listeners = _living(listener)
        if not _EARS.listeners:
            for handle in _EARS.handles:
                handle.remove()
            _EARS.handles = ()


def _living(leaving: Listener | None) -> tuple[weakref.ref[Listener], ...]:
    # Those that are gone leave here, and not when they go: that may be while an
    # optimizer walks through its hooks.
    known = ((r, r()) for r in _EARS.listeners)
    return tuple(r for r, held in known if held is not None and held is not leaving)


def _before(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
    # In a compiled update this is constant and leaves no trace.
    if torch.compiler.is_compiling():
        return None
    changed = None
    for reference in _EARS.listeners:
        listener = reference()
        if listener is not None:
            other = listener.before_update(optimizer, args, kwargs)
            if other is not None:
                changed = args, kwargs = other
    return changed


def _after(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    if torch.compiler.is_compiling():
        return
    for reference in _EARS.listeners:
        listener = reference()
        if listener is not None:
            listener.after_update(optimizer)
