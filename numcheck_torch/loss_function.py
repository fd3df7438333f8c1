# SPDX-License-Identifier: Apache-2.0
"""A loss function that is watched as a whole, and called again in a replay."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

import torch

from numcheck_torch.places import nearest_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck_torch.window import Window

__all__ = ["followed", "released"]


def followed(function: Callable[..., Any], window: Window) -> Callable[..., Any]:
    """Return a loss function whose calls are written down in a step's program.

    A module stays itself, so that ``state_dict`` and friends still find it.

    Args:
        function: the loss; called with the module's output and whatever else.
        window: the step under way.
    """
    if isinstance(function, torch.nn.Module):
        # On the instance; `released` takes it away again.
        function.__dict__["forward"] = _calling(function.forward, window)
        return function
    return functools.wraps(function)(_calling(function, window))


def released(function: Callable[..., Any]) -> None:
    """Give a loss module its own `forward` back."""
    if isinstance(function, torch.nn.Module):
        function.__dict__.pop("forward", None)


def _calling(function: Callable[..., Any], window: Window) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if not window.is_open or torch.compiler.is_compiling():
            return function(*args, **kwargs)
        place = nearest_place(sys._getframe(1))
        with window.written_as_one(function, args, kwargs, place) as note:
            out = function(*args, **kwargs)
            note(out)
        return out

    return call
