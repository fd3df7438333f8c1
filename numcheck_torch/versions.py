# SPDX-License-Identifier: Apache-2.0
"""What differs between PyTorch versions, and private names that moved.

Each is told by what is there, not by a version number: builds for accelerators carry
numbers of their own.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LeavesCompiled", "innermost_backend", "is_fullgraph", "untraced"]

_LINKS: Final = ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable")
"""What Dynamo's callbacks call the one they wrap; the second name is the older one."""


class LeavesCompiled:
    """Makes of a dispatch mode one under which compiled code runs compiled.

    Others make it run operator by operator. Older versions ask whether the mode is one
    of PyTorch's own; newer ones take that for the same answer.
    """

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return that compiled code need not be left for this mode."""
        return True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Return the same, where that was not asked for yet."""
        return True


def innermost_backend(callback: Any) -> Any:
    """Return the user's backend inside of what Dynamo made of it.

    Example:
        >>> innermost_backend(print)
        <built-in function print>
    """
    link = _link(callback)
    while hasattr(callback, link):
        callback = getattr(callback, link)
    return callback


def is_fullgraph(context: Any) -> bool:
    """Whether a context of Dynamo's refuses what is not one graph.

    Older contexts do not say so; in theirs nothing catches what the converter raises.
    """
    if hasattr(context, "fullgraph"):
        return bool(context.fullgraph)
    callback = context.callback
    converter = getattr(callback, _link(callback), None)
    return type(converter).__name__ == "ConvertFrameAssert"


def untraced(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that `torch.compile` does not look into when it is called.

    For versions that neither mark code nor wrap a dispatch mode's method. Unlike
    `torch.compiler.disable` it does not import the compiler, which takes seconds.
    """
    frames: Any = torch._C._dynamo.eval_frame

    def run(*args: Any, **kwargs: Any) -> Any:
        callback = frames.set_eval_frame(None)
        try:
            return method(*args, **kwargs)
        finally:
            frames.set_eval_frame(callback)

    frames.skip_code(run.__code__)
    return functools.wraps(method)(run)


def _link(callback: Any) -> str:
    return next((name for name in _LINKS if hasattr(callback, name)), "")
